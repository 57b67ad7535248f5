// What the programs that check the SDK against a cluster have in common.
#pragma once

#include "tenon/sdk.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace sdk = tenon::sdk;

namespace check {

inline std::atomic<int> failures{0};

inline void check_that(bool good, const char* text, int line, const std::string& detail = {}) {
  if (!good) {
    ++failures;
    std::printf("  FAILED line %d: %s %s\n", line, text, detail.c_str());
    std::fflush(stdout);
  }
}
#define CHECK_THAT(condition) check_that((condition), #condition, __LINE__)
template <class T>
void check_ok(const sdk::Result<T>& result, const char* text, int line) {
  check_that(result.has_value(), text, line, result ? "" : result.error().text());
}
#define CHECK_OK(result) check_ok((result), #result, __LINE__)

/// For what the rest of a part needs: ends the part. Not in callbacks.
template <class T>
void require_ok(const sdk::Result<T>& result, const char* text, int line) {
  check_ok(result, text, line);
  if (!result) {
    throw std::runtime_error("part ended");
  }
}
#define REQUIRE_OK(result) require_ok((result), #result, __LINE__)

/// Waits until the condition holds, at most so long.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = 60s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

struct Setup {
  std::string namesrv{};
  std::string cluster = "DefaultCluster";
  std::string only{};
  std::string config{};  ///< a file with further options of the client
  std::string run{};     ///< makes names unique
  std::uint32_t seed = 1;

  std::string name(const std::string& what) const { return what + "_" + run; }
  sdk::Client client() const {
    sdk::ClientOptions options;
    if (!config.empty()) {
      options = sdk::ClientOptions::from_toml(config).value();
    }
    options.name_servers = namesrv;
    return sdk::Client::connect(options).value();
  }
};

/// What arrived, by message id, with how often.
struct Inbox {
  std::mutex mutex;
  std::map<std::string, int> count;
  std::map<std::string, std::string> body;
  std::vector<sdk::MessageView> messages;

  void add(const sdk::MessageView& m) {
    const std::scoped_lock lock(mutex);
    ++count[m.id()];
    body[m.id()] = std::string(m.body());
    messages.push_back(m);
  }
  std::size_t size() {
    const std::scoped_lock lock(mutex);
    return count.size();
  }
  std::size_t deliveries() {
    const std::scoped_lock lock(mutex);
    return messages.size();
  }
  sdk::MessageView find(const std::string& id) {
    const std::scoped_lock lock(mutex);
    for (const auto& m : messages) {
      if (m.id() == id) {
        return m;
      }
    }
    return {};
  }
};

inline sdk::PushConsumerOptions consumer_options(const std::string& group,
                                                 const std::string& topic) {
  sdk::PushConsumerOptions o;
  o.group = group;
  o.subscriptions[topic] = sdk::Subscription();
  o.start = sdk::FromFirst{};
  return o;
}

inline auto into(Inbox& inbox) {
  return [&inbox](std::span<const sdk::MessageView> batch) {
    for (const auto& m : batch) {
      inbox.add(m);
    }
    return sdk::Ack::success();
  };
}

inline sdk::Message text_message(const std::string& topic, std::string body) {
  sdk::Message m;
  m.topic = topic;
  m.body = std::move(body);
  return m;
}

using Part = std::pair<const char*, void (*)(const Setup&)>;

/// The program: runs the parts that the command line asks for.
inline int run_parts(std::span<const Part> parts, int argc, char** argv) {
  Setup s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name(argv[i]);
    if (name == "--namesrv") {
      s.namesrv = argv[i + 1];
    } else if (name == "--cluster") {
      s.cluster = argv[i + 1];
    } else if (name == "--only") {
      s.only = argv[i + 1];
    } else if (name == "--config") {
      s.config = argv[i + 1];
    } else if (name == "--seed") {
      s.seed = static_cast<std::uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    }
  }
  if (s.namesrv.empty()) {
    std::fprintf(
        stderr,
        "usage: %s --namesrv HOST:PORT [--cluster NAME] [--only PART] [--config FILE] [--seed N]\n",
        argv[0]);
    return 2;
  }
  s.run = std::to_string(std::chrono::system_clock::now().time_since_epoch().count() / 1'000'000);
  for (const auto& [name, run] : parts) {
    if (!s.only.empty() && s.only != name) {
      continue;
    }
    const int before = failures.load();
    const auto begin = std::chrono::steady_clock::now();
    try {
      run(s);
    } catch (const std::exception& e) {
      check_that(false, "no exception", __LINE__, e.what());
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    std::printf("%-20s %s %6ld ms\n",
                name,
                failures == before ? "ok    " : "FAILED",
                static_cast<long>(ms.count()));
    std::fflush(stdout);
  }
  std::printf("%s\n", failures == 0 ? "all checks hold" : "some checks failed");
  return failures == 0 ? 0 : 1;
}

}  // namespace check
