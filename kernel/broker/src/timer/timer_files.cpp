#include "timer/timer_files.h"

#include "meta/json_file.h"

#include "tenon/base/endian.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::broker {
namespace {

constexpr std::uint64_t kMagic = 0x54'4e'54'4d'50'4e'44'31;  // "TNTMPND1"
constexpr std::size_t kHeadBytes = 48;
constexpr std::size_t kEntryBytes = 12;
constexpr std::size_t kSumBytes = 8;
constexpr std::size_t kCheckBytes = 4096;
constexpr std::size_t kCheckRead = 0;
constexpr std::size_t kCheckLog = 8;
constexpr std::size_t kCheckQueue = 16;
constexpr std::size_t kCheckMasterQueue = 24;
constexpr std::size_t kCheckVersionTime = 40;
constexpr std::size_t kCheckUsed = 56;
constexpr std::size_t kDrainBytes = 64u * 1024;

std::uint64_t mix(std::uint64_t sum, std::uint64_t value) noexcept {
  return (((sum ^ value) * 0x9e37'79b9'7f4a'7c15ull) << 7) ^ (sum >> 9) ^ value;
}

std::uint64_t load_be48(const std::byte* p) noexcept {
  return (std::uint64_t{load_be<std::uint16_t>(p)} << 32) | load_be<std::uint32_t>(p + 2);
}

std::string read_whole(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::optional<TimerCheck> load_timer_check(const std::filesystem::path& file) {
  const std::string bytes = read_whole(file);
  if (bytes.size() < kCheckUsed) {
    return std::nullopt;
  }
  return TimerCheck{load_be<std::int64_t>(bytes.data() + kCheckRead),
                    load_be<std::int64_t>(bytes.data() + kCheckQueue)};
}

Result<> save_timer_check(const std::filesystem::path& file,
                          const TimerCheck& check,
                          std::uint64_t timer_log_bytes) {
  std::string bytes(kCheckBytes, '\0');
  store_be(bytes.data() + kCheckRead, check.read_ms);
  store_be(bytes.data() + kCheckLog, timer_log_bytes);
  store_be(bytes.data() + kCheckQueue, check.queue_offset);
  store_be(bytes.data() + kCheckMasterQueue, check.queue_offset);
  store_be(bytes.data() + kCheckVersionTime, check.read_ms);
  return save_json_file(file, bytes);
}

Result<TimerPending> parse_timer_pending(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes + kSumBytes || load_be<std::uint64_t>(bytes.data()) != kMagic) {
    return Error{Errc::kCorrupt, "no file of pending timer messages"};
  }
  const std::byte* p = bytes.data();
  TimerPending t;
  t.read_offset = load_be<std::int64_t>(p + 8);
  t.log_position = load_be<std::uint64_t>(p + 16);
  t.check = {load_be<std::int64_t>(p + 24), load_be<std::int64_t>(p + 32)};
  const auto count = load_be<std::uint64_t>(p + 40);
  const std::size_t rest = bytes.size() - kHeadBytes - kSumBytes;
  if (rest % kEntryBytes != 0 || count != rest / kEntryBytes) {
    return Error{Errc::kCorrupt, "the file of pending timer messages is cut"};
  }
  std::uint64_t sum = 0;
  for (std::size_t at = 8; at < kHeadBytes; at += 8) {
    sum = mix(sum, load_be<std::uint64_t>(p + at));
  }
  t.entries.reserve(count);
  p += kHeadBytes;
  for (std::uint64_t i = 0; i < count; ++i, p += kEntryBytes) {
    const std::uint64_t look = load_be48(p);
    const std::uint64_t offset = load_be48(p + 6);
    sum = mix(mix(sum, look), offset);
    t.entries.push_back({static_cast<std::int64_t>(look), static_cast<std::int64_t>(offset)});
  }
  if (load_be<std::uint64_t>(p) != sum) {
    return Error{Errc::kCorrupt, "the file of pending timer messages has a wrong sum"};
  }
  return t;
}

Result<TimerPending> load_timer_pending(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) {
    return Error{Errc::kNotFound, file.string()};
  }
  const std::string bytes = read_whole(file);
  return parse_timer_pending(as_bytes(bytes));
}

TimerPendingWriter::TimerPendingWriter(std::filesystem::path file)
    : file_(std::move(file)) {}

TimerPendingWriter::~TimerPendingWriter() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink((file_.string() + ".tmp").c_str());
  }
}

Result<> TimerPendingWriter::open(const TimerPending& head, std::size_t count) {
  const std::string tmp = file_.string() + ".tmp";
  std::error_code ec;
  std::filesystem::create_directories(file_.parent_path(), ec);
  fd_ = ::open(tmp.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    return os_error("open " + tmp, errno);
  }
  buffer_.reserve(kDrainBytes + kHeadBytes);
  put(kMagic, 8);
  for (const std::uint64_t value : {static_cast<std::uint64_t>(head.read_offset),
                                    head.log_position,
                                    static_cast<std::uint64_t>(head.check.read_ms),
                                    static_cast<std::uint64_t>(head.check.queue_offset),
                                    std::uint64_t{count}}) {
    put(value, 8);
    sum_ = mix(sum_, value);
  }
  return ok();
}

void TimerPendingWriter::put(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) {
    buffer_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

void TimerPendingWriter::add(const TimerEntry& entry) {
  const auto look = static_cast<std::uint64_t>(entry.look_ms) & 0xffff'ffff'ffff;
  const auto offset = static_cast<std::uint64_t>(entry.offset) & 0xffff'ffff'ffff;
  put(look, 6);
  put(offset, 6);
  sum_ = mix(mix(sum_, look), offset);
  if (buffer_.size() >= kDrainBytes) {
    drain();
  }
}

void TimerPendingWriter::drain() {
  const char* p = buffer_.data();
  std::size_t left = buffer_.size();
  while (left > 0 && failed_ == 0) {
    const ::ssize_t n = ::write(fd_, p, left);
    if (n < 0 && errno != EINTR) {
      failed_ = errno;
    } else if (n > 0) {
      p += n;
      left -= static_cast<std::size_t>(n);
    }
  }
  buffer_.clear();
}

Result<> TimerPendingWriter::finish() {
  put(sum_, kSumBytes);
  drain();
  if (failed_ != 0) {
    return os_error("write " + file_.string() + ".tmp", failed_);
  }
  return ok();
}

Result<> TimerPendingWriter::commit() {
  const std::string tmp = file_.string() + ".tmp";
  if (::fdatasync(fd_) != 0) {
    return os_error("sync " + tmp, errno);
  }
  ::close(std::exchange(fd_, -1));
  if (::rename(tmp.c_str(), file_.c_str()) != 0) {
    return os_error("rename " + tmp, errno);
  }
  return ok();
}

}  // namespace tenon::broker
