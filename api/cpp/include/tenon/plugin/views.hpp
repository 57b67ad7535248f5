// Views of C++ over the views of the ABI, and the exception that becomes a status with text.
#pragma once

#include "tenon/abi/types.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::plugin {

inline std::string_view text(tenon_str s) noexcept {
  return s.len == 0 ? std::string_view{} : std::string_view{s.ptr, s.len};
}
inline tenon_str str(std::string_view s) noexcept {
  return {s.data(), s.size()};
}
inline std::span<const std::uint8_t> bytes(tenon_bytes b) noexcept {
  return {b.ptr, b.len};
}
inline tenon_bytes bytes(std::span<const std::uint8_t> b) noexcept {
  return {b.data(), b.size()};
}

/// An array of the ABI: elements are `stride` bytes apart, which may be more than sizeof(T) when
/// the caller was built with newer headers. Strided<const tenon_record> in(recs, stride, n);
template <class T>
class Strided {
 public:
  Strided(T* first, std::size_t stride, std::size_t n) noexcept
      : first_(first),
        stride_(stride),
        n_(n) {}

  T& operator[](std::size_t i) const noexcept {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return *reinterpret_cast<T*>(reinterpret_cast<Byte*>(first_) + stride_ * i);
  }
  std::size_t size() const noexcept { return n_; }
  bool empty() const noexcept { return n_ == 0; }

  class Iterator {
   public:
    using value_type = std::remove_const_t<T>;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const Strided* of, std::size_t i) noexcept
        : of_(of),
          i_(i) {}
    T& operator*() const noexcept { return (*of_)[i_]; }
    T* operator->() const noexcept { return &(*of_)[i_]; }
    Iterator& operator++() noexcept {
      ++i_;
      return *this;
    }
    Iterator operator++(int) noexcept {
      Iterator before = *this;
      ++i_;
      return before;
    }
    bool operator==(const Iterator& other) const noexcept { return i_ == other.i_; }

   private:
    const Strided* of_ = nullptr;
    std::size_t i_ = 0;
  };
  Iterator begin() const noexcept { return {this, 0}; }
  Iterator end() const noexcept { return {this, n_}; }

 private:
  T* first_;
  std::size_t stride_;
  std::size_t n_;
};

/// Thrown by plug-in code; the glue turns it into its status and text at the boundary. The text
/// names the object and the reason and has no final period.
class Failure : public std::exception {
 public:
  Failure(tenon_status status, std::string text, int os_errno = 0)
      : status_(status),
        os_errno_(os_errno),
        text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  tenon_status status() const noexcept { return status_; }
  int os_errno() const noexcept { return os_errno_; }

 private:
  tenon_status status_;
  int os_errno_;
  std::string text_;
};

/// Writes a failure to err (may be null) and returns the status.
inline tenon_status fail(tenon_error* err,
                         tenon_status status,
                         std::string_view what,
                         int os_errno = 0) noexcept {
  if (err != nullptr && os_errno != 0) {
    err->os_errno = os_errno;
  }
  return tenon_fail_str(err, status, str(what));
}

/// To be called inside a catch block: the status and text of the exception in flight.
inline tenon_status fail_current_exception(tenon_error* err) noexcept {
  try {
    throw;
  } catch (const Failure& f) {
    return fail(err, f.status(), f.what(), f.os_errno());
  } catch (const std::bad_alloc&) {
    return fail(err, TENON_NOMEM, "out of memory");
  } catch (const std::exception& e) {
    return fail(err, TENON_INTERNAL, e.what());
  } catch (...) {
    return fail(err, TENON_INTERNAL, "exception of unknown type");
  }
}

/// tenon_error with room for a text, for calls into the host.
class ErrorText {
 public:
  ErrorText() noexcept {
    raw_.size = sizeof raw_;
    raw_.buf = buffer_;
    raw_.cap = sizeof buffer_;
  }
  tenon_error* raw() noexcept { return &raw_; }
  std::string_view text() const noexcept { return buffer_; }
  /// Throws Failure if status is a failure.
  void check(tenon_status status) const {
    if (status < 0) {
      throw Failure(status, buffer_, raw_.os_errno);
    }
  }

 private:
  tenon_error raw_{};
  char buffer_[512] = {};
};

}  // namespace tenon::plugin
