// Loading a plug-in in a child process: static constructors of a plug-in run before the host can check
// anything, so they must not be able to take the host down.
#include "library.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::host {
namespace {

/// Writes the answer of the child: numbers as 8 bytes, texts as length and bytes.
class Writer {
 public:
  void number(std::uint64_t v) { out_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  void text(std::string_view s) {
    number(s.size());
    out_.append(s);
  }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in)
      : in_(in) {}
  std::uint64_t number() {
    std::uint64_t v = 0;
    if (in_.size() < sizeof v) {
      complete_ = false;
      return 0;
    }
    std::memcpy(&v, in_.data(), sizeof v);
    in_.remove_prefix(sizeof v);
    return v;
  }
  std::string text() {
    const std::uint64_t n = number();
    if (n > in_.size()) {
      complete_ = false;
      return {};
    }
    std::string s(in_.substr(0, n));
    in_.remove_prefix(n);
    return s;
  }
  /// A count of things that take at least 8 bytes each: never more than the input can hold.
  std::uint64_t count() { return std::min<std::uint64_t>(number(), in_.size() / 8); }
  bool complete() const { return complete_ && in_.empty(); }

 private:
  std::string_view in_;
  bool complete_ = true;
};

void put(Writer& w, const PluginInfo& p) {
  for (const std::string* s :
       {&p.id, &p.name, &p.vendor, &p.version, &p.url, &p.doc, &p.build_info}) {
    w.text(*s);
  }
  w.text(p.file.string());
  w.number(p.abi_major);
  w.number(p.abi_minor);
  w.number(p.flags);
  w.number(p.interfaces.size());
  for (const std::string& i : p.interfaces) {
    w.text(i);
  }
  w.number(p.keys.size());
  for (const ConfigKeyInfo& k : p.keys) {
    w.text(k.name);
    w.text(k.type);
    w.text(k.default_text);
    w.text(k.doc);
    w.number(k.flags);
  }
}

PluginInfo get(Reader& r) {
  PluginInfo p;
  for (std::string* s : {&p.id, &p.name, &p.vendor, &p.version, &p.url, &p.doc, &p.build_info}) {
    *s = r.text();
  }
  p.file = r.text();
  p.abi_major = static_cast<std::uint16_t>(r.number());
  p.abi_minor = static_cast<std::uint16_t>(r.number());
  p.flags = static_cast<std::uint32_t>(r.number());
  for (std::uint64_t n = r.count(); n > 0; --n) {
    p.interfaces.push_back(r.text());
  }
  for (std::uint64_t n = r.count(); n > 0; --n) {
    ConfigKeyInfo k;
    k.name = r.text();
    k.type = r.text();
    k.default_text = r.text();
    k.doc = r.text();
    k.flags = static_cast<std::uint32_t>(r.number());
    p.keys.push_back(std::move(k));
  }
  return p;
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n <= 0 && errno != EINTR) {
      return;
    }
    bytes.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
  }
}

[[noreturn]] void run_child(const std::filesystem::path& file,
                            bool insecure,
                            int answer,
                            int errors) {
  for (const int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT, SIGPIPE}) {
    ::signal(s, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const ::rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::dup2(errors, STDERR_FILENO);
  if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
    ::dup2(nowhere, STDOUT_FILENO);
  }
  set_log_sink(nullptr);

  Writer w;
  auto library = Library::open(file, insecure);
  if (library) {
    w.number(1);
    w.number(library.value()->plugins().size());
    for (const PluginInfo& p : library.value()->plugins()) {
      put(w, p);
    }
  } else {
    w.number(0);
    w.number(static_cast<std::uint64_t>(-static_cast<std::int64_t>(library.error().code)));
    w.number(static_cast<std::uint64_t>(library.error().os_errno));
    w.text(library.error().detail);
  }
  write_all(answer, w.bytes());
  ::_exit(0);  // no destructors: they belong to the parent or to the plug-in under suspicion
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  bool open() { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }
  void close(std::size_t i) {
    if (ends[i] >= 0) {
      ::close(std::exchange(ends[i], -1));
    }
  }
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(0);
    close(1);
  }
};

constexpr std::size_t kAnswerMax = 4u << 20;
constexpr std::size_t kErrorsMax = 4096;

/// Reads both pipes until they end. False when the time is over.
bool collect(int answer_fd,
             int errors_fd,
             std::chrono::steady_clock::time_point deadline,
             std::string& answer,
             std::string& errors) {
  std::array<::pollfd, 2> fds{::pollfd{answer_fd, POLLIN, 0}, ::pollfd{errors_fd, POLLIN, 0}};
  while (fds[0].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          deadline - std::chrono::steady_clock::now())
                          .count();
    if (left <= 0) {
      return false;
    }
    if (::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left, 60'000))) <
            0 &&
        errno != EINTR) {
      return false;
    }
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(fds[i].fd, buffer.data(), buffer.size());
      if (n <= 0) {
        fds[i].fd = -1;
        continue;
      }
      std::string& into = i == 0 ? answer : errors;
      if (into.size() < (i == 0 ? kAnswerMax : kErrorsMax)) {
        into.append(buffer.data(), static_cast<std::size_t>(n));
      }
    }
  }
  return true;
}

std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  const auto newline = text.rfind('\n');
  text = newline == std::string_view::npos ? text : text.substr(newline + 1);
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  return std::string(text.substr(0, 200));
}

Result<std::vector<PluginInfo>> decode(std::string_view answer, const std::filesystem::path& file) {
  Reader r(answer);
  if (r.number() == 1) {
    std::vector<PluginInfo> plugins;
    for (std::uint64_t n = r.count(); n > 0; --n) {
      plugins.push_back(get(r));
    }
    if (r.complete()) {
      return plugins;
    }
  } else {
    Error e;
    e.code = static_cast<Errc>(-static_cast<std::int64_t>(r.number()));
    e.os_errno = static_cast<int>(r.number());
    e.detail = r.text();
    if (r.complete()) {
      return e;
    }
  }
  return Error{
      Errc::kInternal,
      fmt::format("{}: the process that looked into it gave a broken answer; repair the plug-in",
                  file.string())};
}

}  // namespace

Result<std::vector<PluginInfo>> probe_in_child(const std::filesystem::path& file,
                                               std::chrono::milliseconds timeout,
                                               bool insecure) {
  Pipe answer_pipe;
  Pipe errors_pipe;
  if (!answer_pipe.open() || !errors_pipe.open()) {
    return os_error("pipe", errno);
  }
  std::fflush(nullptr);  // what stands in buffers is ours: a crashing child must not print it again
  const ::pid_t child = ::fork();
  if (child < 0) {
    return os_error("fork", errno);
  }
  if (child == 0) {
    run_child(file, insecure, answer_pipe.ends[1], errors_pipe.ends[1]);
  }
  answer_pipe.close(1);
  errors_pipe.close(1);
  std::string answer;
  std::string errors;
  const bool in_time = collect(answer_pipe.ends[0],
                               errors_pipe.ends[0],
                               std::chrono::steady_clock::now() + timeout,
                               answer,
                               errors);
  if (!in_time) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time) {
    return Error{
        Errc::kTimeout,
        fmt::format("{}: did not finish loading within {} ms; its static constructors or init hang",
                    file.string(),
                    timeout.count())};
  }
  if (WIFSIGNALED(status) ||
      answer.empty()) {  // with an answer the exit code is that of a sanitizer
    const std::string how =
        WIFSIGNALED(status) ? fmt::format("crashed with SIG{}", ::sigabbrev_np(WTERMSIG(status)))
                            : fmt::format("ended the process with code {}", WEXITSTATUS(status));
    const std::string line = last_line(errors);
    return Error{
        Errc::kInternal,
        fmt::format("{}: {} while it was loaded{}{}; repair its static constructors or init",
                    file.string(),
                    how,
                    line.empty() ? "" : ": ",
                    line)};
  }
  return decode(answer, file);
}

}  // namespace tenon::host
