// Counts the calls of operator new. Replaces it for the whole program: included by one source file of
// an executable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tenon::test {

namespace detail {
inline thread_local std::uint64_t allocations_of_thread = 0;
inline std::atomic<std::uint64_t> allocations{0};
inline std::atomic<std::uint64_t> allocated_bytes{0};

inline void* count_and_allocate(std::size_t bytes) noexcept {
  ++allocations_of_thread;
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(bytes, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
}  // namespace detail

/// Calls on the calling thread so far.
inline std::uint64_t allocations_of_thread() noexcept {
  return detail::allocations_of_thread;
}
/// Calls of all threads so far, and what they asked for.
inline std::uint64_t allocations() noexcept {
  return detail::allocations.load(std::memory_order_relaxed);
}
inline std::uint64_t allocated_bytes() noexcept {
  return detail::allocated_bytes.load(std::memory_order_relaxed);
}

}  // namespace tenon::test

// GCC sees the free() of memory from the replaced operator new and calls it a mismatch.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  if (void* p = tenon::test::detail::count_and_allocate(bytes)) {
    return p;
  }
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) {
  return ::operator new(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return tenon::test::detail::count_and_allocate(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return tenon::test::detail::count_and_allocate(bytes);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete[](void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete[](void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
void operator delete[](void* p, const std::nothrow_t&) noexcept {
  std::free(p);
}
#pragma GCC diagnostic pop
