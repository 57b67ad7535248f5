#include "meta/json_file.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace tenon::broker {
namespace {

class Fd {
 public:
  explicit Fd(int fd) noexcept
      : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const noexcept { return fd_; }
  bool ok() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

/// @return kNotFound if the file does not exist
Result<std::string> read_file(const std::filesystem::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    const int e = errno;
    return os_error("open " + path.string(), e, e == ENOENT ? Errc::kNotFound : Errc::kIo);
  }
  std::string text;
  char buffer[16 * 1024];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return os_error("read " + path.string(), errno);
    }
    if (n == 0) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<> write_file(const std::filesystem::path& path, std::string_view text) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.ok()) {
    return os_error("open " + path.string(), errno);
  }
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return os_error("write " + path.string(), errno);
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(fd.get()) != 0) {
    return os_error("sync " + path.string(), errno);
  }
  return ok();
}

Result<> rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return os_error(fmt::format("rename {} to {}", from.string(), to.string()), errno);
  }
  return ok();
}

/// The current file also under the name .bak, without a moment in which either is missing.
Result<> keep_as_bak(const std::filesystem::path& path) {
  const std::filesystem::path bak = path.string() + ".bak";
  const std::filesystem::path link = path.string() + ".bak.tmp";
  ::unlink(link.c_str());
  if (::link(path.c_str(), link.c_str()) != 0) {
    if (errno == ENOENT) {
      return ok();  // the first time
    }
    // No hard links on this file system: a copy does.
    TENON_TRY(auto old, read_file(path));
    TENON_TRY(write_file(link, old));
  }
  return rename_file(link, bak);
}

}  // namespace

Result<> load_json_file(const std::filesystem::path& path,
                        const std::function<Result<>(std::string_view)>& parse) {
  auto main_text = read_file(path);
  if (main_text.has_value() && !main_text.value().empty()) {
    auto parsed = parse(main_text.value());
    if (parsed.has_value()) {
      return ok();
    }
    log_warn("broker",
             "configuration file unreadable, using its backup file={} reason=\"{}\"",
             path.string(),
             parsed.error().detail);
  } else if (main_text.has_error() && main_text.error().code != Errc::kNotFound) {
    log_warn("broker",
             "configuration file unreadable, using its backup file={} reason=\"{}\"",
             path.string(),
             main_text.error().detail);
  }

  const std::filesystem::path bak = path.string() + ".bak";
  auto bak_text = read_file(bak);
  if (bak_text.has_error()) {
    if (bak_text.error().code == Errc::kNotFound && main_text.has_error() &&
        main_text.error().code == Errc::kNotFound) {
      return ok();
    }
    if (bak_text.error().code == Errc::kNotFound && main_text.has_value() &&
        main_text.value().empty()) {
      return ok();
    }
    return Error{bak_text.error().code,
                 fmt::format("{} is unreadable and there is no usable {}: {}; move the damaged "
                             "file away to start without it",
                             path.string(),
                             bak.string(),
                             bak_text.error().detail)};
  }
  auto parsed = parse(bak_text.value());
  if (parsed.has_error()) {
    return Error{Errc::kCorrupt,
                 fmt::format("{}: {}; move the damaged files away to start without them",
                             bak.string(),
                             parsed.error().detail)};
  }
  return ok();
}

Result<> save_json_file(const std::filesystem::path& path, std::string_view text) {
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  if (ec) {
    return os_error("create folder " + path.parent_path().string(), ec.value());
  }
  const std::filesystem::path tmp = path.string() + ".tmp";
  TENON_TRY(write_file(tmp, text));
  TENON_TRY(keep_as_bak(path));
  TENON_TRY(rename_file(tmp, path));
  const Fd dir(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.ok() && ::fsync(dir.get()) != 0) {
    return os_error("sync " + path.parent_path().string(), errno);
  }
  return ok();
}

Result<> JsonFile::load(const std::function<Result<>(std::string_view)>& parse) const {
  return load_json_file(path_, parse);
}

Result<> JsonFile::save_if_changed(const std::function<std::string()>& text) {
  const std::scoped_lock lock(save_mutex_);
  const std::uint64_t changes = changes_.load(std::memory_order_acquire);
  if (changes == saved_) {
    return ok();
  }
  TENON_TRY(save_json_file(path_, text()));
  saved_ = changes;
  return ok();
}

}  // namespace tenon::broker
