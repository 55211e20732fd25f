// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Per-call resources of a loaded step (scratch memory, a library's memory objects): made when the
// step is loaded, so that running it allocates nothing, and made anew only when more threads run
// the same step at once than ever before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace culet {

template <typename T>
class FreeList {
 public:
  /// `make` returns null where it fails.
  explicit FreeList(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)) {
    free_.reserve(64);
  }

  /// Makes the first one; false where that fails.
  bool prime() {
    auto item = make_();
    if (item == nullptr) return false;
    free_.push_back(std::move(item));
    return true;
  }

  /// An item that goes back when the lease ends.
  class Lease {
   public:
    Lease(FreeList* list, std::unique_ptr<T> item) : list_(list), item_(std::move(item)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (item_ != nullptr) list_->give_back(std::move(item_));
    }
    explicit operator bool() const { return item_ != nullptr; }
    T* operator->() const { return item_.get(); }
    T& operator*() const { return *item_; }

   private:
    FreeList* list_;
    std::unique_ptr<T> item_;
  };

  Lease take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        auto item = std::move(free_.back());
        free_.pop_back();
        return Lease(this, std::move(item));
      }
    }
    return Lease(this, make_());
  }

 private:
  void give_back(std::unique_ptr<T> item) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(item));
  }

  std::function<std::unique_ptr<T>()> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

/// Memory aligned to cache lines, uninitialised; null data where there is none to be had.
class AlignedBuffer {
 public:
  static constexpr std::size_t kAlign = 64;
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes)
      : data_(bytes == 0 ? nullptr
                         : static_cast<unsigned char*>(
                               ::operator new (bytes, std::align_val_t{kAlign}, std::nothrow))) {}
  unsigned char* data() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(unsigned char* data) const {
      ::operator delete (data, std::align_val_t{kAlign});
    }
  };
  std::unique_ptr<unsigned char, Delete> data_;
};

}  // namespace culet
