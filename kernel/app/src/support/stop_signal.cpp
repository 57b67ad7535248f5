#include "support/stop_signal.h"

#include "tenon/base/check.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace tenon::app {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  request_ = ::eventfd(0, EFD_CLOEXEC);
  TENON_CHECK(signals_ >= 0 && request_ >= 0, "no descriptors for signals: errno {}", errno);
}

StopSignal::~StopSignal() {
  ::close(signals_);
  ::close(request_);
}

void StopSignal::request(std::string_view fault) {
  {
    const std::scoped_lock lock(mutex_);
    if (fault_.empty()) {
      fault_ = fault;
    }
  }
  ::eventfd_write(request_, 1);
}

bool StopSignal::wait(std::optional<std::chrono::milliseconds> timeout) {
  if (signalled_) {
    return true;
  }
  std::array<pollfd, 2> fds{{{signals_, POLLIN, 0}, {request_, POLLIN, 0}}};
  const int ms = timeout ? static_cast<int>(timeout->count()) : -1;
  int ready = 0;
  do {
    ready = ::poll(fds.data(), fds.size(), ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return false;
  }
  if ((fds[0].revents & POLLIN) != 0) {
    signalfd_siginfo taken{};
    [[maybe_unused]] const auto n = ::read(signals_, &taken, sizeof taken);
  }
  // From here on the signals have their usual effect: a second Ctrl-C ends a program that hangs in
  // its shutdown. Threads that inherited the mask do not take them, this one does.
  std::signal(SIGINT, [](int) { ::_exit(130); });
  std::signal(SIGTERM, [](int) { ::_exit(143); });
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  signalled_ = true;
  return true;
}

std::string StopSignal::fault() const {
  const std::scoped_lock lock(mutex_);
  return fault_;
}

}  // namespace tenon::app
