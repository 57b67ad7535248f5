// Runs a program while a broker of this process serves:
//   with_broker [--limit SECONDS] [--topic NAME]... [--group NAME]... PROGRAM ARGUMENT...
// The program finds the name server in NAMESRV_ADDR; an argument "{}" becomes its address. Exits as
// the program does; after the limit the program is killed and its threads are listed. A broker that
// does not stop is an error too.
#include "tenon/testing.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr std::chrono::seconds kStopLimit{30};

/// Each thread of a process: its name, its state and where in the kernel it waits.
void list_threads(pid_t pid) {
  std::error_code none;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", none)) {
    const auto line = [&](const char* file) {
      std::ifstream in(task.path() / file);
      std::string text;
      std::getline(in, text);
      return text;
    };
    std::string state = line("stat");
    state = state.substr(std::min(state.rfind(')') + 1, state.size()), 2);
    std::fprintf(stderr,
                 "  thread %s %s state%s waits in %s, system call %s\n",
                 task.path().filename().c_str(),
                 line("comm").c_str(),
                 state.c_str(),
                 line("wchan").c_str(),
                 line("syscall").c_str());
  }
}

/// @return 0 or the error
int spawn(const std::vector<char*>& arguments, const sigset_t& mask, pid_t& child) {
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const int error =
      ::posix_spawnp(&child, arguments[0], nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  return error;
}

/// @return the exit status, or -1 if it was killed at the end of the time
int wait_for(pid_t child, int limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit_s);
  sigset_t ended;
  ::sigemptyset(&ended);
  ::sigaddset(&ended, SIGCHLD);
  for (;;) {
    int status = 0;
    if (::waitpid(child, &status, limit_s > 0 ? WNOHANG : 0) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    }
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::seconds(0)) {
      return -1;
    }
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{ns / 1'000'000'000, ns % 1'000'000'000};
    ::sigtimedwait(&ended, nullptr, &wait);
  }
}

}  // namespace

int main(int argc, char** argv) {
  tenon::testing::BrokerOptions options;
  options.delay_levels = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";
  int limit_s = 0;
  int i = 1;
  for (; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--topic") {
      options.topics.push_back({argv[i + 1]});
    } else if (option == "--group") {
      options.groups.emplace_back(argv[i + 1]);
    } else if (option == "--limit") {
      limit_s = std::atoi(argv[i + 1]);
    } else {
      break;
    }
  }
  if (i >= argc) {
    std::fprintf(stderr,
                 "usage: %s [--limit SECONDS] [--topic NAME]... [--group NAME]... PROGRAM ARG...\n",
                 argv[0]);
    return 2;
  }
  // Before the broker's threads, which inherit it; the program gets the former mask back.
  sigset_t ended;
  sigset_t former;
  ::sigemptyset(&ended);
  ::sigaddset(&ended, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &ended, &former);
  auto broker = tenon::testing::Broker::start(std::move(options));
  if (!broker) {
    std::fprintf(stderr, "%s\n", broker.error().text().c_str());
    return 1;
  }
  std::string address = broker->name_servers();
  ::setenv("NAMESRV_ADDR", address.c_str(), 1);
  std::vector<char*> arguments;
  for (; i < argc; ++i) {
    arguments.push_back(std::string(argv[i]) == "{}" ? address.data() : argv[i]);
  }
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = spawn(arguments, former, child); error != 0) {
    std::fprintf(stderr, "%s: error %d\n", arguments[0], error);
    return 1;
  }
  int status = wait_for(child, limit_s);
  if (status < 0) {
    std::fprintf(stderr, "%s still runs after %d s:\n", arguments[0], limit_s);
    list_threads(child);
    std::fprintf(stderr, "and the broker:\n");
    list_threads(::getpid());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    status = 124;
  }
  std::promise<void> stopped;
  std::thread stopper([&] {
    { const auto gone = std::move(*broker); }
    stopped.set_value();
  });
  if (stopped.get_future().wait_for(kStopLimit) != std::future_status::ready) {
    std::fprintf(stderr, "the broker does not stop:\n");
    list_threads(::getpid());
    std::_Exit(125);
  }
  stopper.join();
  return status;
}
