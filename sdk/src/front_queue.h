// A queue that is put together at its end, taken from its front and looked through by index.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tenon::sdk {

/// As a std::deque, but in one piece that is used again: no allocation per element in the steady
/// state. What an empty queue keeps is kKeep elements at most. Thread: one at a time.
template <class T>
class FrontQueue {
 public:
  static constexpr std::size_t kKeep = 64;

  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept { return items_.size() - first_; }
  auto begin() noexcept { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() noexcept { return items_.end(); }
  auto begin() const noexcept { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() const noexcept { return items_.end(); }
  T& operator[](std::size_t i) noexcept { return items_[first_ + i]; }
  const T& operator[](std::size_t i) const noexcept { return items_[first_ + i]; }
  T& front() noexcept { return items_[first_]; }
  const T& front() const noexcept { return items_[first_]; }
  const T& back() const noexcept { return items_.back(); }

  void push_back(T item) {
    make_room();
    items_.push_back(std::move(item));
  }
  /// Before the element of this index.
  void insert(std::size_t index, T item) {
    make_room();
    items_.insert(begin() + static_cast<std::ptrdiff_t>(index), std::move(item));
  }
  void pop_front() {
    items_[first_] = T();
    if (++first_ == items_.size()) {
      items_.clear();
      first_ = 0;
      if (items_.capacity() > kKeep) {
        items_.shrink_to_fit();
      }
    }
  }
  void swap(FrontQueue& other) noexcept {
    items_.swap(other.items_);
    std::swap(first_, other.first_);
  }

 private:
  /// Moves the elements to the front rather than growing, when that frees half of the room: each is
  /// moved at most once per element that was taken.
  void make_room() {
    if (items_.size() == items_.capacity() && first_ > 0 && first_ >= items_.size() / 2) {
      items_.erase(items_.begin(), begin());
      first_ = 0;
    }
  }
  std::vector<T> items_{};
  std::size_t first_ = 0;  ///< those before it were taken
};

}  // namespace tenon::sdk
