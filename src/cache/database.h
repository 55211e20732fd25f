// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// A thin owner of one SQLite connection and its statements, so that sqlite3.h stays in one .cpp and
// the store above it is read as SQL and nothing else. Not thread-safe: the store locks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

struct sqlite3;
struct sqlite3_stmt;

namespace culet {

/// What came of a statement's step.
enum class DbStatus : std::uint8_t {
  row,
  done,
  damaged,  ///< the file's contents cannot be trusted
  failed,   ///< anything else: busy, disk full, I/O error; Database::message() says which
};

/// Why a database could not be opened.
struct OpenFailure {
  enum class Kind : std::uint8_t {
    damaged,   ///< garbage, truncated, not what its header says: may be moved aside
    refused,   ///< another program's, or a newer culet's: must not be touched
    unusable,  ///< cannot be created, read or written
  };
  Kind kind = Kind::unusable;
  std::string message;
};

/// How a file is opened.
struct OpenMode {
  enum class Access : std::uint8_t {
    write,
    read,       ///< never written to, and nothing is made; changes of others are seen
    immutable,  ///< the same without any lock or side file: for folders in which none can be made
  };
  Access access = Access::write;
  /// A write-ahead log lets readers and writers work at once, but needs memory that all processes
  /// share: not on a network file system, where a rollback journal is used.
  bool wal = true;
};

class Database {
 public:
  /// Opens the file, or (for writing) makes it with the current schema where there is none, and
  /// brings one of an earlier version up to date.
  static tl::expected<std::unique_ptr<Database>, OpenFailure> open(const std::string& path,
                                                                   const OpenMode& mode = {});
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs statements without results.
  DbStatus execute(const char* sql);
  /// The last error, in SQLite's words.
  std::string message() const;
  /// How many rows the last statement changed.
  std::int64_t changes() const;
  /// The file was made, or changed to this journal, by this opening.
  bool journal_changed() const { return journal_changed_; }
  /// Whether the path still leads to the file that is open here.
  bool is_at(const std::string& path) const;
  /// Closing writes nothing more: for a file that is about to be moved, or that is not ours.
  void leave_as_is();
  /// Forgets the connection without closing it: what a child must do after a fork.
  void abandon() { handle_ = nullptr; }

 private:
  friend class Statement;
  explicit Database(sqlite3* handle) : handle_(handle) {}
  tl::expected<void, OpenFailure> prepare_file(const std::string& path, const OpenMode& mode);
  tl::expected<void, OpenFailure> prepare_writing(const std::string& path, bool wal);
  tl::expected<void, OpenFailure> set_journal(const std::string& path, bool wal);
  tl::expected<std::int64_t, OpenFailure> stored_version();
  tl::expected<void, OpenFailure> update_schema();
  OpenFailure failure(const std::string& path) const;

  sqlite3* handle_ = nullptr;
  std::uint64_t device_ = 0, inode_ = 0;
  bool journal_changed_ = false;
};

/// A write transaction; rolled back unless it was committed.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  /// Of the beginning: `done` where it holds the lock.
  DbStatus begun() const { return begun_; }
  DbStatus commit();

 private:
  Database& database_;
  DbStatus begun_;
  bool open_;
};

/// One prepared statement; parameters are bound in order.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& text(std::string_view value);
  Statement& blob(std::string_view value);
  Statement& integer(std::int64_t value);

  DbStatus step();
  /// For the next use, with other parameters.
  Statement& reset();
  std::string text_at(int column) const;  ///< text or blob
  std::int64_t integer_at(int column) const;

 private:
  sqlite3_stmt* handle_ = nullptr;
  int status_ = 0;
  int bound_ = 0;
};

}  // namespace culet
