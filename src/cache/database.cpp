// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The only file that includes sqlite3.h: opening, the schema, and the translation of result codes
// into the three answers the store acts on.
#include "cache/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace culet {
namespace {

/// "cule" in the header says whose file this is; a file without it is never written to.
constexpr std::int64_t kApplicationId = 0x63756c65;
constexpr std::int64_t kSchemaVersion = 3;
/// Writers hold the lock for well under a millisecond; this long only if a process was stopped.
constexpr int kBusyMilliseconds = 10'000;

/// Version 1. Every row carries a checksum over all of its columns, keys included. A fresh file
/// goes through all versions, so that there is one schema, however a file came to it.
constexpr const char* kSchema1 = R"sql(
CREATE TABLE code(
  key TEXT NOT NULL PRIMARY KEY,
  kind TEXT NOT NULL,
  entry TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  log TEXT NOT NULL,
  bytes BLOB NOT NULL,
  checksum TEXT NOT NULL,
  size INTEGER NOT NULL,
  last_used INTEGER NOT NULL
) STRICT;
CREATE TABLE trials(
  problem TEXT NOT NULL,
  candidate TEXT NOT NULL,
  environment TEXT NOT NULL,
  json TEXT NOT NULL,
  checksum TEXT NOT NULL,
  PRIMARY KEY(problem, candidate, environment)
) STRICT, WITHOUT ROWID;
CREATE TABLE selections(
  problem TEXT NOT NULL,
  device TEXT NOT NULL,
  scope TEXT NOT NULL,
  candidate TEXT NOT NULL,
  why TEXT NOT NULL,
  made INTEGER NOT NULL,
  checksum TEXT NOT NULL,
  PRIMARY KEY(problem, device, scope)
) STRICT, WITHOUT ROWID;
)sql";

/// Version 2. Times of use leave the rows that hold code, which SQLite would write anew, code and
/// all, at each change of a number; they have no checksum: a wrong one costs at most a compilation.
/// `store` holds one row, the store's own name: code of another store is not run unasked.
constexpr const char* kSchema2 = R"sql(
ALTER TABLE code RENAME COLUMN last_used TO made;
CREATE TABLE code_use(
  key TEXT NOT NULL PRIMARY KEY,
  last_used INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO code_use SELECT key, made, length(bytes) FROM code;
CREATE TABLE store(id TEXT NOT NULL) STRICT;
INSERT INTO store VALUES(lower(hex(randomblob(16))));
)sql";

/// Version 3. The compilers' names in keys of code: with them a stored choice finds its code
/// without loading or asking a compiler, which costs more than all else at the start of a process.
constexpr const char* kSchema3 = R"sql(
CREATE TABLE toolchains(
  architecture TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  last_used INTEGER NOT NULL,
  PRIMARY KEY(architecture, fingerprint)
) STRICT, WITHOUT ROWID;
)sql";

constexpr std::array<const char*, 3> kUpdates{kSchema1, kSchema2, kSchema3};

/// Every column is named once at opening, so that a schema that is not this one is found there. The
/// first ones are what reading needs, of any version.
constexpr std::size_t kReadProbes = 3;
constexpr std::array<const char*, 7> kProbes{
    "SELECT key, kind, entry, toolchain, log, bytes, checksum, size FROM code LIMIT 1",
    "SELECT problem, candidate, environment, json, checksum FROM trials LIMIT 1",
    "SELECT problem, device, scope, candidate, why, made, checksum FROM selections LIMIT 1",
    "SELECT made FROM code LIMIT 1",
    "SELECT key, last_used, bytes FROM code_use LIMIT 1",
    "SELECT id FROM store LIMIT 1",
    "SELECT architecture, fingerprint, last_used FROM toolchains LIMIT 1",
};

DbStatus translate(int code) {
  switch (code & 0xff) {
    case SQLITE_ROW:
      return DbStatus::row;
    case SQLITE_OK:
    case SQLITE_DONE:
      return DbStatus::done;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    // The statements are constants that hold for the schema: an error in one is an error in the
    // schema stored in the file.
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
    case SQLITE_MISMATCH:
      return DbStatus::damaged;
    default:
      return DbStatus::failed;
  }
}

/// SQLite would make the file readable by all; it holds code that gets loaded, so it is made here,
/// for its owner only. (SQLite gives its side files the same mode.)
tl::expected<void, OpenFailure> touch(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return tl::unexpected(
        OpenFailure{OpenFailure::Kind::unusable, fmt::format("{}: {}", path, strerror(errno))});
  }
  ::close(fd);
  return {};
}

/// The path as SQLite's URI, in which '?', '#' and '%' would mean something else.
std::string uri_of(const std::string& path, bool immutable) {
  std::string uri = "file:";
  const std::size_t first = path.find_first_not_of('/');  // "//host/..." would name a host
  for (const char c : path.substr(path.starts_with("//") ? first - 1 : 0)) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return uri + (immutable ? "?immutable=1" : "");
}

/// Whether the file's header says that it is written through a log (SQLite's file format, offset
/// 18).
bool has_log(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char header[19] = {};
  return file.read(header, sizeof header) && header[18] == 2;
}

}  // namespace

Database::~Database() {
  if (handle_ != nullptr) sqlite3_close_v2(handle_);
}

std::string Database::message() const {
  return handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
}

OpenFailure Database::failure(const std::string& path) const {
  const int code = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(handle_);
  const auto kind = translate(code) == DbStatus::damaged ? OpenFailure::Kind::damaged
                                                         : OpenFailure::Kind::unusable;
  return {kind, fmt::format("{}: {}", path, message())};
}

tl::expected<std::unique_ptr<Database>, OpenFailure> Database::open(const std::string& path,
                                                                    const OpenMode& mode) {
  struct stat before {};
  const bool existed = ::stat(path.c_str(), &before) == 0;
  if (existed && S_ISREG(before.st_mode) && before.st_size == 0) {
    return tl::unexpected(OpenFailure{OpenFailure::Kind::damaged, path + ": the file is empty"});
  }
  const bool writing = mode.access == OpenMode::Access::write;
  if (writing) {
    if (auto made = touch(path); !made) return tl::unexpected(made.error());
  }
  sqlite3* handle = nullptr;
  const int flags = (writing ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_URI;
  const bool immutable = mode.access == OpenMode::Access::immutable;
  const int opened = sqlite3_open_v2(uri_of(path, immutable).c_str(), &handle, flags, nullptr);
  std::unique_ptr<Database> database(new Database(handle));
  if (opened != SQLITE_OK) return tl::unexpected(database->failure(path));
  if (auto ready = database->prepare_file(path, mode); !ready) {
    database->leave_as_is();
    return tl::unexpected(ready.error());
  }
  if (writing && !existed) database->journal_changed_ = true;
  struct stat now {};
  if (::stat(path.c_str(), &now) == 0) {
    database->device_ = now.st_dev;
    database->inode_ = now.st_ino;
  }
  return database;
}

tl::expected<void, OpenFailure> Database::prepare_file(const std::string& path,
                                                       const OpenMode& mode) {
  sqlite3_extended_result_codes(handle_, 1);
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  const bool writing = mode.access == OpenMode::Access::write;
  if (execute("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON") != DbStatus::done) {
    return tl::unexpected(failure(path));
  }
  if (writing) {
    if (auto ready = prepare_writing(path, mode.wal); !ready) return ready;
  } else {
    const auto version = stored_version();
    if (!version || *version == 0) {
      OpenFailure why =
          version ? OpenFailure{OpenFailure::Kind::damaged, "it holds no store"} : version.error();
      why.message = fmt::format("{}: {}", path, why.message);
      return tl::unexpected(why);
    }
  }
  for (std::size_t i = 0; i < (writing ? kProbes.size() : kReadProbes); ++i) {
    Statement statement(*this, kProbes[i]);
    const DbStatus status = statement.step();
    if (status != DbStatus::row && status != DbStatus::done) return tl::unexpected(failure(path));
  }
  return {};
}

tl::expected<void, OpenFailure> Database::prepare_writing(const std::string& path, bool wal) {
  if (sqlite3_db_readonly(handle_, "main") == 1) {
    return tl::unexpected(
        OpenFailure{OpenFailure::Kind::unusable, path + ": the file is read-only"});
  }
  // The log is kept when the last connection closes: SQLite removes it by name, and after a damaged
  // store was moved aside that name belongs to the fresh one.
  int keep = 1;
  sqlite3_file_control(handle_, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  // A log that is there already is read without memory shared with others: see OpenMode::wal. Only
  // then: two that open at once in this mode each keep the lock that the other waits for.
  if (!wal && has_log(path) && execute("PRAGMA locking_mode=EXCLUSIVE") != DbStatus::done) {
    return tl::unexpected(failure(path));
  }
  if (auto known = update_schema(); !known) {
    known.error().message = fmt::format("{}: {}", path, known.error().message);
    return known;
  }
  return set_journal(path, wal);
}

tl::expected<void, OpenFailure> Database::set_journal(const std::string& path, bool wal) {
  const auto mode = [&](const char* pragma) {
    Statement statement(*this, pragma);
    return statement.step() == DbStatus::row ? statement.text_at(0) : std::string();
  };
  const std::string before = mode("PRAGMA journal_mode");
  const std::string now = mode(wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE");
  if (now.empty() || (!wal && now == "wal")) return tl::unexpected(failure(path));
  journal_changed_ = before != now;
  // Without a log, a commit has to reach the disk to survive a crash in one piece.
  const char* settings = now == "wal"
                             ? "PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=1048576"
                             : "PRAGMA synchronous=FULL; PRAGMA locking_mode=NORMAL";
  if (execute(settings) != DbStatus::done) return tl::unexpected(failure(path));
  return {};
}

tl::expected<std::int64_t, OpenFailure> Database::stored_version() {
  using Kind = OpenFailure::Kind;
  const auto number = [&](const char* sql, std::int64_t* value) {
    Statement statement(*this, sql);
    if (statement.step() != DbStatus::row) return false;
    *value = statement.integer_at(0);
    return true;
  };
  std::int64_t application = 0, version = 0, objects = 0;
  if (!number("PRAGMA application_id", &application) || !number("PRAGMA user_version", &version) ||
      !number("SELECT count(*) FROM sqlite_master", &objects)) {
    OpenFailure found = failure("");
    found.message = message();
    return tl::unexpected(found);
  }
  if (application == 0 && version == 0 && objects == 0) return 0;
  if (application != kApplicationId) {
    return tl::unexpected(
        OpenFailure{Kind::refused, "is a database of another program, not a culet store"});
  }
  if (version > kSchemaVersion) {
    return tl::unexpected(OpenFailure{
        Kind::refused, fmt::format("was written by a newer culet (schema {}, this one knows {})",
                                   version, kSchemaVersion)});
  }
  if (version < 1) {
    return tl::unexpected(
        OpenFailure{Kind::damaged, fmt::format("schema version {} never existed", version)});
  }
  return version;
}

tl::expected<void, OpenFailure> Database::update_schema() {
  const auto trouble = [&] {
    OpenFailure found = failure("");
    found.message = message();
    return tl::unexpected(found);
  };
  // The usual case needs no writer's lock, for which it might have to wait.
  if (const auto known = stored_version(); known && *known == kSchemaVersion) return {};
  // One writer makes or updates the schema; whoever comes second finds it done. A process killed
  // in between leaves the version that was there.
  Transaction transaction(*this);
  if (transaction.begun() != DbStatus::done) return trouble();
  const auto version = stored_version();
  if (!version) return tl::unexpected(version.error());
  for (auto next = *version; next < kSchemaVersion; ++next) {
    if (execute(kUpdates[static_cast<std::size_t>(next)]) != DbStatus::done) return trouble();
  }
  if (*version < kSchemaVersion) {
    const std::string marks = fmt::format("PRAGMA application_id={}; PRAGMA user_version={}",
                                          kApplicationId, kSchemaVersion);
    if (execute(marks.c_str()) != DbStatus::done) return trouble();
  }
  if (transaction.commit() != DbStatus::done) return trouble();
  return {};
}

DbStatus Database::execute(const char* sql) {
  return translate(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

std::int64_t Database::changes() const { return sqlite3_changes64(handle_); }

void Database::leave_as_is() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

bool Database::is_at(const std::string& path) const {
  struct stat now {};
  return ::stat(path.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
}

Transaction::Transaction(Database& database)
    : database_(database),
      begun_(database.execute("BEGIN IMMEDIATE")),
      open_(begun_ == DbStatus::done) {}

Transaction::~Transaction() {
  if (open_) (void)database_.execute("ROLLBACK");
}

DbStatus Transaction::commit() {
  const DbStatus status = database_.execute("COMMIT");
  if (status == DbStatus::done) open_ = false;
  return status;
}

Statement::Statement(Database& database, std::string_view sql) {
  status_ = sqlite3_prepare_v2(database.handle_, sql.data(), static_cast<int>(sql.size()), &handle_,
                               nullptr);
}

Statement::~Statement() { sqlite3_finalize(handle_); }

Statement& Statement::text(std::string_view value) {
  if (status_ == SQLITE_OK) {
    status_ = sqlite3_bind_text64(handle_, ++bound_, value.data() ? value.data() : "", value.size(),
                                  SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return *this;
}

Statement& Statement::blob(std::string_view value) {
  if (status_ == SQLITE_OK) {
    status_ = sqlite3_bind_blob64(handle_, ++bound_, value.data() ? value.data() : "", value.size(),
                                  SQLITE_TRANSIENT);
  }
  return *this;
}

Statement& Statement::integer(std::int64_t value) {
  if (status_ == SQLITE_OK) status_ = sqlite3_bind_int64(handle_, ++bound_, value);
  return *this;
}

DbStatus Statement::step() {
  if (status_ != SQLITE_OK && status_ != SQLITE_ROW) return translate(status_);
  status_ = sqlite3_step(handle_);
  return translate(status_);
}

Statement& Statement::reset() {
  sqlite3_reset(handle_);
  if (handle_ != nullptr) status_ = SQLITE_OK;
  bound_ = 0;
  return *this;
}

std::string Statement::text_at(int column) const {
  const void* data = sqlite3_column_blob(handle_, column);
  const int size = sqlite3_column_bytes(handle_, column);
  return data == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

std::int64_t Statement::integer_at(int column) const {
  return sqlite3_column_int64(handle_, column);
}

}  // namespace culet
