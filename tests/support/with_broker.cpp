// Runs a program while a broker of this process serves:
//   with_broker [--topic NAME]... [--group NAME]... PROGRAM ARGUMENT...
// The program finds the name server in NAMESRV_ADDR; an argument "{}" becomes its address. Exits as
// the program does.
#include "tenon/testing.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  tenon::testing::BrokerOptions options;
  options.delay_levels = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";
  int i = 1;
  for (; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--topic") {
      options.topics.push_back({argv[i + 1]});
    } else if (option == "--group") {
      options.groups.emplace_back(argv[i + 1]);
    } else {
      break;
    }
  }
  if (i >= argc) {
    std::fprintf(stderr, "usage: %s [--topic NAME]... [--group NAME]... PROGRAM ARG...\n", argv[0]);
    return 2;
  }
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
  if (const int error =
          ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
      error != 0) {
    std::fprintf(stderr, "%s: error %d\n", arguments[0], error);
    return 1;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
