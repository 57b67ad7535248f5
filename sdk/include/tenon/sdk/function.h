// A move-only callable with room for small captures, so that a call with a callback does not
// allocate.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tenon::sdk {

template <class Signature>
class Function;

/// Thread: like any value. Calling an empty one is undefined; test it first.
template <class R, class... Args>
class Function<R(Args...)> {
 public:
  Function() noexcept = default;
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
           std::is_invocable_r_v<R, F&, Args...>)
      Function(F&& f) {  // NOLINT(google-explicit-constructor)
    using Stored = std::remove_cvref_t<F>;
    if constexpr (fits<Stored>) {
      ::new (static_cast<void*>(room_)) Stored(std::forward<F>(f));
      table_ = &kInline<Stored>;
    } else {
      ::new (static_cast<void*>(room_)) Stored*(new Stored(std::forward<F>(f)));
      table_ = &kHeap<Stored>;
    }
  }
  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() { reset(); }

  explicit operator bool() const noexcept { return table_ != nullptr; }
  R operator()(Args... args) { return table_->call(room_, std::forward<Args>(args)...); }
  void reset() noexcept {
    if (table_ != nullptr) {
      std::exchange(table_, nullptr)->destroy(room_);
    }
  }

 private:
  static constexpr std::size_t kRoomBytes = 48;
  struct Table {
    R (*call)(void* room, Args&&... args);
    void (*move)(void* from, void* to) noexcept;
    void (*destroy)(void* room) noexcept;
  };
  template <class F>
  static constexpr bool fits =
      sizeof(F) <= kRoomBytes &&
      alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;
  template <class F>
  static F* at(void* room) noexcept {
    return std::launder(static_cast<F*>(room));
  }
  template <class F>
  static constexpr Table kInline{
      [](void* room, Args&&... args) -> R { return (*at<F>(room))(std::forward<Args>(args)...); },
      [](void* from, void* to) noexcept {
        ::new (to) F(std::move(*at<F>(from)));
        at<F>(from)->~F();
      },
      [](void* room) noexcept { at<F>(room)->~F(); }};
  template <class F>
  static constexpr Table kHeap{
      [](void* room, Args&&... args) -> R { return (**at<F*>(room))(std::forward<Args>(args)...); },
      [](void* from, void* to) noexcept { ::new (to) F*(*at<F*>(from)); },
      [](void* room) noexcept { delete *at<F*>(room); }};

  void take(Function& other) noexcept {
    if (other.table_ != nullptr) {
      table_ = std::exchange(other.table_, nullptr);
      table_->move(other.room_, room_);
    }
  }

  alignas(std::max_align_t) std::byte room_[kRoomBytes];
  const Table* table_ = nullptr;
};

}  // namespace tenon::sdk
