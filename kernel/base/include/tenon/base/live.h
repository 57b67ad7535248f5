// A plain setting that may change while the program runs: everybody reads it like a value, one owner
// sets it. As large as T, so that a struct of settings stays a struct of values.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <concepts>

namespace tenon {

/// T is a number or a truth value. Reading costs what reading a T costs. Thread: any for get() and
/// set(); copies, assignment and plain() before other threads know it.
template <class T>
requires std::integral<T>
class Live {
 public:
  constexpr explicit Live(T value = T{}) noexcept
      : value_(value) {}
  Live(const Live& other) noexcept
      : value_(other.get()) {}
  Live& operator=(const Live& other) noexcept {
    set(other.get());
    return *this;
  }
  Live& operator=(T value) noexcept {
    set(value);
    return *this;
  }
  ~Live() = default;

  T get() const noexcept {
    return std::atomic_ref<T>(const_cast<T&>(value_)).load(std::memory_order_relaxed);
  }
  operator T() const noexcept { return get(); }  // NOLINT(google-explicit-constructor)
  void set(T value) noexcept { std::atomic_ref<T>(value_).store(value, std::memory_order_relaxed); }
  /// For readers of configuration files.
  T* plain() noexcept { return &value_; }

 private:
  static_assert(std::atomic_ref<T>::is_always_lock_free &&
                std::atomic_ref<T>::required_alignment == alignof(T));
  T value_;
};

}  // namespace tenon

/// As the value itself.
template <class T>
struct fmt::formatter<tenon::Live<T>> : fmt::formatter<T> {
  template <class Context>
  auto format(const tenon::Live<T>& value, Context& context) const {
    return fmt::formatter<T>::format(value.get(), context);
  }
};
