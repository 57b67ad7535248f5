#include "timer/timer_handover.h"

#include "timer/timer_files.h"

#include "tenon/base/endian.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::broker {
namespace {

constexpr std::int64_t kSlots = 7 * 86'400 * 2;
constexpr std::uint64_t kSlotBytes = 32;
constexpr std::uint64_t kUnitBytes = 52;
constexpr std::uint64_t kBlankBytes = 16;
constexpr std::uint32_t kBlankMagic = 0xcbd4'3194;
constexpr std::int32_t kMagicDefault = 1;
constexpr std::int32_t kMagicRoll = 2;
constexpr std::int32_t kMagicRecall = 4;
constexpr std::int64_t kNoUnit = -1;
constexpr std::size_t kDrainBytes = 256u * 1024;

/// From two days on a 5.x broker does not put an entry at its time but stores it again before.
constexpr std::int64_t kDaySeconds = 86'400;
constexpr std::int64_t kRollWindowMs = 2 * kDaySeconds * kSlotMs;

/// A sparse file of a fixed size, written in pieces. The first error stays.
class Writer {
 public:
  Writer() = default;
  ~Writer() { close(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void open(const std::filesystem::path& file, std::uint64_t bytes) {
    name_ = file.string();
    at_ = 0;
    fd_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
      fail(errno);
    }
  }
  void seek(std::uint64_t at) {
    if (at != at_ + buffer_.size()) {
      drain();
      at_ = at;
    }
  }
  template <class T>
  void put(T value) {
    char bytes[sizeof(T)];
    store_be(bytes, value);
    buffer_.append(bytes, sizeof bytes);
    if (buffer_.size() >= kDrainBytes) {
      drain();
    }
  }
  void close() {
    drain();
    if (fd_ >= 0) {
      if (::fsync(fd_) != 0) {
        fail(errno);
      }
      ::close(std::exchange(fd_, -1));
    }
  }
  Result<> result() const {
    return error_ == 0 ? ok() : Result<>(os_error("write " + name_, error_));
  }

 private:
  void drain() {
    std::string_view rest = buffer_;
    while (!rest.empty() && error_ == 0) {
      const ::ssize_t n = ::pwrite(fd_, rest.data(), rest.size(), static_cast<off_t>(at_));
      if (n < 0 && errno != EINTR) {
        fail(errno);
      } else if (n > 0) {
        rest.remove_prefix(static_cast<std::size_t>(n));
        at_ += static_cast<std::uint64_t>(n);
      }
    }
    buffer_.clear();
  }
  void fail(int error) {
    if (error_ == 0) {
      error_ = error;
    }
  }

  std::string name_{};
  std::string buffer_{};
  std::uint64_t at_ = 0;  ///< of the buffer in the file
  int fd_ = -1;
  int error_ = 0;
};

/// Where and how an entry goes into the wheel.
struct Placed {
  std::int64_t slot = 0;  ///< seconds of the epoch
  std::int32_t magic = kMagicDefault;
};

Placed place(const TimerUnit& unit, std::int64_t read_ms) {
  Placed p{std::max(unit.due_ms, read_ms) / kSlotMs, kMagicDefault};
  if (unit.due_ms - read_ms >= kRollWindowMs) {
    // Spread over a day, so that not all are stored again in one second.
    p = {read_ms / kSlotMs + kDaySeconds + unit.offset % kDaySeconds, kMagicDefault | kMagicRoll};
  }
  if (unit.recall) {
    p.magic |= kMagicRecall;
  }
  return p;
}

class Wheel {
 public:
  Wheel(const std::filesystem::path& root, std::uint64_t log_file_bytes, std::int64_t read_ms)
      : folder_(root / "timerlog"),
        log_file_bytes_(log_file_bytes),
        read_ms_(read_ms) {
    slots_.open(root / "timerwheel", static_cast<std::uint64_t>(kSlots) * kSlotBytes);
  }

  /// The units of one second, in the order of the queue.
  template <class Iterator>
  void add_slot(std::int64_t slot, Iterator begin, Iterator end) {
    std::int64_t first = kNoUnit;
    std::int64_t last = kNoUnit;
    std::int32_t count = 0;
    for (auto it = begin; it != end; ++it) {
      last = append(*it, slot, last, place(*it, read_ms_).magic);
      first = first == kNoUnit ? last : first;
      count += it->recall ? -1 : 1;
    }
    slots_.seek(static_cast<std::uint64_t>(slot % kSlots) * kSlotBytes);
    slots_.put(slot);
    slots_.put(first);
    slots_.put(last);
    slots_.put(count);
    slots_.put(std::int32_t{0});
  }

  /// Not in the wheel: of a second that is over, so that its slot is never read.
  void add_done(const TimerUnit& unit) {
    append(unit, read_ms_ / kSlotMs - 1, kNoUnit, kMagicDefault);
  }

  Result<std::uint64_t> finish() {
    log_.close();
    slots_.close();
    for (const Result<>& r : {log_.result(), slots_.result()}) {
      if (r.has_error()) {
        return r.error();
      }
    }
    return position_;
  }

 private:
  /// @return position of the unit
  std::int64_t append(const TimerUnit& unit,
                      std::int64_t slot,
                      std::int64_t previous,
                      std::int32_t magic) {
    const std::uint64_t in_file = position_ % log_file_bytes_;
    if (in_file + kUnitBytes + kBlankBytes > log_file_bytes_) {
      log_.put(static_cast<std::int32_t>(log_file_bytes_ - in_file));
      log_.put(std::int64_t{0});
      log_.put(kBlankMagic);
      position_ += log_file_bytes_ - in_file;
    }
    if (position_ % log_file_bytes_ == 0) {
      log_.close();
      log_.open(folder_ / fmt::format("{:020}", position_), log_file_bytes_);
    }
    const std::uint64_t at = position_;
    log_.put(static_cast<std::int32_t>(kUnitBytes));
    log_.put(previous);
    log_.put(magic);
    log_.put(read_ms_);
    log_.put(static_cast<std::int32_t>(slot * kSlotMs - read_ms_));
    log_.put(unit.phys);
    log_.put(unit.bytes);
    log_.put(unit.topic_hash);
    log_.put(std::int64_t{0});
    position_ += kUnitBytes;
    return static_cast<std::int64_t>(at);
  }

  const std::filesystem::path folder_;
  const std::uint64_t log_file_bytes_;
  const std::int64_t read_ms_;
  std::uint64_t position_ = 0;  ///< in all files of the timerlog
  Writer log_{};
  Writer slots_{};
};

}  // namespace

Result<std::uint64_t> write_timer_handover(const std::filesystem::path& root,
                                           std::uint64_t log_file_bytes,
                                           TimerHandover handover) {
  std::error_code ec;
  if (!std::filesystem::create_directory(root / "timerlog", ec)) {
    return Error{Errc::kIo, fmt::format("create {}/timerlog: {}", root.string(), ec.message())};
  }
  std::vector<TimerUnit>& units = handover.pending;
  const auto slot_of = [&](const TimerUnit& u) { return place(u, handover.read_ms).slot; };
  const auto last = std::find_if(units.begin(), units.end(), [&](const TimerUnit& u) {
    return u.offset == handover.last.offset;
  });
  const bool last_is_pending = last != units.end();
  const std::int64_t last_slot = last_is_pending ? slot_of(*last) : -1;
  // The slot of the last entry comes last, and that entry in it.
  const auto key = [&](const TimerUnit& u) {
    const std::int64_t slot = slot_of(u);
    return std::tuple(slot == last_slot, slot, u.offset);
  };
  std::sort(units.begin(), units.end(), [&](const TimerUnit& a, const TimerUnit& b) {
    return key(a) < key(b);
  });
  Wheel wheel(root, log_file_bytes, handover.read_ms);
  for (auto begin = units.begin(); begin != units.end();) {
    const std::int64_t slot = slot_of(*begin);
    const auto end =
        std::find_if(begin, units.end(), [&](const TimerUnit& u) { return slot_of(u) != slot; });
    wheel.add_slot(slot, begin, end);
    begin = end;
  }
  if (!last_is_pending) {
    wheel.add_done(handover.last);
  }
  return wheel.finish();
}

std::uint64_t timer_log_file_bytes(const std::filesystem::path& folder) {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ec)) {
    const std::uint64_t bytes = entry.file_size(ec);
    if (!ec && bytes >= kUnitBytes + kBlankBytes) {
      return bytes;
    }
  }
  return kTimerLogFileBytes;
}

}  // namespace tenon::broker
