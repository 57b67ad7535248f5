// Values that any number of threads read without a lock while somebody replaces them: a reader says
// that it reads, and what was replaced is freed when nobody can be reading it any more (epochs). For
// tables that every request looks into and that change seldom.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tenon::broker {

/// As long as it lives, nothing that this thread finds in a Snapshot is freed. Never waits; may be
/// nested. Keep it short: memory waits for it. Thread: its own.
class ReadSection {
 public:
  ReadSection() noexcept;
  ~ReadSection();
  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;

 private:
  std::atomic<std::uint64_t>* entered_;  ///< null inside of another section
};

namespace detail {
/// Ends an epoch. @return the number of it: sections of this epoch and of earlier ones may still
/// see what was replaced before the call
std::uint64_t end_epoch() noexcept;
/// The epoch of the section that began first; the largest number if there is none.
std::uint64_t oldest_section() noexcept;
}  // namespace detail

template <class T>
class Snapshot {
 public:
  explicit Snapshot(std::unique_ptr<const T> first = std::make_unique<const T>())
      : current_(first.release()) {}
  /// Nobody may be reading.
  ~Snapshot() { delete current_.load(std::memory_order_relaxed); }
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  /// The result of use(value); it must not point into the value. Never waits. Thread: any.
  template <class Use>
  auto read(Use&& use) const {
    const ReadSection section;
    return std::forward<Use>(use)(*current_.load());
  }
  /// Thread: any, one at a time; the old value is freed by a later call or with the snapshot.
  void replace(std::unique_ptr<const T> next) {
    const T* old = current_.exchange(next.release());
    retired_.emplace_back(detail::end_epoch(), old);
    const std::uint64_t oldest = detail::oldest_section();
    std::erase_if(retired_, [oldest](const auto& entry) { return entry.first < oldest; });
  }
  /// What waits for its readers. Thread: as replace().
  std::size_t retired() const noexcept { return retired_.size(); }

 private:
  std::atomic<const T*> current_;
  std::vector<std::pair<std::uint64_t, std::unique_ptr<const T>>> retired_{};
};

}  // namespace tenon::broker
