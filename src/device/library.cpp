// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Opening shared libraries, and the places CUDA's are found in.
#include "device/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace culet {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> split_path(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t end = std::min(text.find(':', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

/// Existing folders in the order added, each once.
class FolderList {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    const std::string text = folder.string();
    if (std::find(found_.begin(), found_.end(), text) == found_.end()) found_.push_back(text);
  }

  /// The places libraries have inside a toolkit's folder.
  void add_toolkit(const fs::path& root) {
    for (const char* inside : {"lib64", "lib", "targets/x86_64-linux/lib"}) add(root / inside);
  }

  /// `<folder>/nvidia/*/lib`: how pip's CUDA wheels are laid out (one folder a component, or one
  /// "cu13" with all of them from CUDA 13 on).
  void add_wheels(const fs::path& site_packages) {
    for (const fs::path& component : sorted(site_packages / "nvidia")) add(component / "lib");
  }

  /// Every `<prefix>/lib/python3*/{site,dist}-packages`.
  void add_python_prefix(const fs::path& prefix) {
    for (const fs::path& folder : sorted(prefix / "lib")) {
      if (folder.filename().string().rfind("python3", 0) != 0) continue;
      for (const char* inside : {"site-packages", "dist-packages"}) add_wheels(folder / inside);
    }
  }

  static std::vector<fs::path> sorted(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      entries.push_back(it->path());
    }
    std::sort(entries.begin(), entries.end());
    return entries;
  }

  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

}  // namespace

Result<Library> Library::open(const std::string& what, const std::vector<std::string>& sonames,
                              const std::vector<std::string>& folders) {
  Library library;
  std::string problem;  // a file that is there but does not load is worth naming
  const auto attempt = [&](const std::string& name) {
    library.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ == nullptr) {
      const char* text = dlerror();
      std::error_code error;
      if (text != nullptr && problem.empty() && fs::exists(name, error)) problem = text;
      return false;
    }
    library.path_ = name;
    return true;
  };
  // A folder the user names comes before the loader's own choice.
  const std::string chosen = environment("CULET_CUDA_PATH");
  for (const std::string& folder : folders) {
    if (chosen.empty() || folder.rfind(chosen, 0) != 0) continue;
    for (const std::string& name : sonames) {
      if (attempt(folder + "/" + name)) return library;
    }
  }
  for (const std::string& name : sonames) {
    if (attempt(name)) return library;
  }
  for (const std::string& folder : folders) {
    for (const std::string& name : sonames) {
      if (attempt(folder + "/" + name)) return library;
    }
  }
  if (!problem.empty()) return fail(ErrorCode::device, fmt::format("no {}: {}", what, problem));
  return fail(ErrorCode::device,
              fmt::format("no {} ({} not found)", what, fmt::join(sonames, " or ")));
}

void* Library::symbol(const char* name) const {
  return handle_ == nullptr ? nullptr : dlsym(handle_, name);
}

std::vector<std::string> cuda_library_folders() {
  FolderList folders;
  for (const char* name : {"CULET_CUDA_PATH", "CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = environment(name);
    if (root.empty()) continue;
    folders.add_toolkit(root);
    folders.add(root);
  }
  folders.add_toolkit("/usr/local/cuda");
  std::vector<fs::path> toolkits = FolderList::sorted("/usr/local");
  std::reverse(toolkits.begin(), toolkits.end());  // the newest version first
  for (const fs::path& entry : toolkits) {
    if (entry.filename().string().rfind("cuda-", 0) == 0) folders.add_toolkit(entry);
  }
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = environment(name);
    if (!prefix.empty()) folders.add_python_prefix(prefix);
  }
  for (const std::string& folder : split_path(environment("PYTHONPATH"))) {
    folders.add_wheels(folder);
  }
  const std::string home = environment("HOME");
  if (!home.empty()) folders.add_python_prefix(fs::path(home) / ".local");
  for (const char* prefix : {"/usr/local", "/usr", "/opt/conda"}) folders.add_python_prefix(prefix);
  folders.add_wheels("/usr/lib/python3/dist-packages");
  return folders.take();
}

}  // namespace culet
