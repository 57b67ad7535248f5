#include "loaded.h"
#include "md5.h"
#include "paths.h"
#include "ring.h"

#include "tenon/abi/entry.h"
#include "tenon/abi/queue_allocator.h"
#include "tenon/allocator_rules/rules.h"
#include "tenon/base/crc32.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" {
extern const tenon_entry tenon_entry_allocator_averagely;
extern const tenon_entry tenon_entry_allocator_circle;
extern const tenon_entry tenon_entry_allocator_consistent_hash;
extern const tenon_entry tenon_entry_allocator_config;
extern const tenon_entry tenon_entry_allocator_machine_room;
extern const tenon_entry tenon_entry_allocator_machine_room_nearby;
}

namespace {

using Allocator = tenon::test::Loaded<tenon_allocator>;

Allocator load(const tenon_entry& entry, std::string_view id, std::string_view options = {}) {
  return Allocator(entry, id, TENON_QUEUE_ALLOCATOR_IID, options);
}

struct Group {
  std::vector<std::string> clients;
  std::vector<std::pair<std::string, std::uint32_t>> queues;
  std::string topic = "TopicTest";
};

/// The members of AllocationGolden.java.
std::vector<std::string> golden_members(int m) {
  std::vector<std::string> all;
  for (int k = 0; k < m; ++k) {
    all.push_back(fmt::format("10.{}.0.{}@{}", k % 3, k, 1000 + k));
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// The queues of AllocationGolden.java.
std::vector<std::pair<std::string, std::uint32_t>> golden_queues(std::uint32_t q, bool rooms) {
  std::vector<std::pair<std::string, std::uint32_t>> all;
  for (std::uint32_t k = 0; k < q; ++k) {
    const std::uint32_t b = k / 8;
    std::string name = fmt::format("broker-{:02}", b);
    if (rooms && b % 5 != 4) {
      name = b % 6 == 5 ? "r1@" + name + "@x" : fmt::format("r{}@{}", b % 3, name);
    }
    all.emplace_back(name, k % 8);
  }
  std::sort(all.begin(), all.end());
  return all;
}

/// The input of an allocation, made once for all members of a group.
class Input {
 public:
  explicit Input(const Group& g)
      : out_(g.queues.size()) {
    for (const auto& c : g.clients) {
      clients_.push_back({c.data(), c.size()});
    }
    for (const auto& [broker, id] : g.queues) {
      queues_.push_back({{broker.data(), broker.size()}, id, 0});
    }
    in_.size = sizeof in_;
    in_.group = {"G", 1};
    in_.topic = {g.topic.data(), g.topic.size()};
    in_.clients = clients_.data();
    in_.client_count = static_cast<std::uint32_t>(clients_.size());
    in_.queues = queues_.data();
    in_.queue_count = static_cast<std::uint32_t>(queues_.size());
    in_.stride = sizeof(tenon_queue_ref);
  }

  std::span<const std::uint32_t> allocate(const Allocator& a, std::uint32_t self) {
    in_.self_index = self;
    std::size_t n = 0;
    tenon::host::ErrorBuffer error;
    const tenon_status status =
        a->allocate(a.self(), &in_, out_.data(), out_.size(), &n, error.raw());
    if (status != TENON_OK) {
      FAIL(error.make_error(status).detail);
    }
    return std::span(out_).first(n);
  }

 private:
  std::vector<tenon_str> clients_;
  std::vector<tenon_queue_ref> queues_;
  std::vector<std::uint32_t> out_;
  tenon_allocate in_{};
};

std::vector<std::uint32_t> allocate(const Allocator& a, const Group& g, std::uint32_t self) {
  Input input(g);
  const auto out = input.allocate(a, self);
  return {out.begin(), out.end()};
}

/// One line of the golden files from the owners of the queues, -1 for none.
std::string line_of(std::size_t members, std::span<const int> owner) {
  std::string out = std::to_string(members) + " " + std::to_string(owner.size()) + " :";
  for (const int o : owner) {
    out += o < 0 ? " -" : " " + std::to_string(o);
  }
  return out + "\n";
}

/// A queue given twice fails the test.
std::string line(const Allocator& a, const Group& g) {
  std::vector<int> owner(g.queues.size(), -1);
  Input input(g);
  for (std::uint32_t i = 0; i < g.clients.size(); ++i) {
    for (const std::uint32_t k : input.allocate(a, i)) {
      if (k >= owner.size() || owner[k] >= 0) {
        FAIL("queue ", k, " does not exist or was given twice");
      }
      owner[k] = static_cast<int>(i);
    }
  }
  return line_of(g.clients.size(), owner);
}

/// A file of tests/data/allocation.
struct Golden {
  std::string header;
  std::map<std::pair<int, std::uint32_t>, std::string> shown;  ///< (members, queues) → line
  std::map<int, std::uint32_t> digests;                        ///< members → CRC-32 of 257 lines
};

Golden load_golden(const std::string& file) {
  std::ifstream in(tenon::test::data_dir() + "/allocation/" + file);
  REQUIRE(in.is_open());
  Golden out;
  std::getline(in, out.header);
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    if (text.starts_with("digest ")) {
      std::string word;
      int m = 0;
      words >> word >> m;
      words >> out.digests[m];
    } else {
      std::pair<int, std::uint32_t> at;
      words >> at.first >> at.second;
      out.shown[at] = text + "\n";
    }
  }
  REQUIRE(out.shown.size() == 140);
  REQUIRE(out.digests.size() == 64);
  return out;
}

/// Compares every listed line, and for some numbers of members the digest of all 257 numbers of
/// queues: all of them would take minutes in a build without optimisation.
void compare(const Allocator& a, const std::string& file, bool rooms, bool may_leave_holes) {
  const Golden golden = load_golden(file);
  CHECK(golden.header == "# " + std::string(a->wire_name));
  for (const auto& [at, expected] : golden.shown) {
    CHECK(line(a, {golden_members(at.first), golden_queues(at.second, rooms)}) == expected);
  }
  for (const int m : {1, 2, 3, 5, 8}) {
    std::string all;
    for (std::uint32_t q = 0; q <= 256; ++q) {
      const std::string got = line(a, {golden_members(m), golden_queues(q, rooms)});
      if (!may_leave_holes && got.find('-') != std::string::npos) {
        FAIL("a queue without a member: ", got);
      }
      all += got;
    }
    CAPTURE(m);
    CHECK(tenon::crc32(std::as_bytes(std::span(all))) == golden.digests.at(m));
  }
}

}  // namespace

TEST_SUITE("plugins/allocators against the Java client") {
  TEST_CASE("averagely") {
    compare(load(tenon_entry_allocator_averagely, "tenon.allocator.averagely"),
            "averagely.txt",
            false,
            false);
  }
  TEST_CASE("circle") {
    compare(
        load(tenon_entry_allocator_circle, "tenon.allocator.circle"), "circle.txt", false, false);
  }
  TEST_CASE("consistent hash, through the interface where the file shows the allocation") {
    const auto a = load(tenon_entry_allocator_consistent_hash, "tenon.allocator.consistent-hash");
    const Golden golden = load_golden("consistent-hash.txt");
    CHECK(golden.header == "# " + std::string(a->wire_name));
    for (const auto& [at, expected] : golden.shown) {
      if (at.first <= 7) {
        CHECK(line(a, {golden_members(at.first), golden_queues(at.second, false)}) == expected);
      }
    }
  }
  TEST_CASE("consistent hash, all combinations on the ring alone") {
    // Each member builds the ring anew, which would make 300 million hashes of this.
    const Golden golden = load_golden("consistent-hash.txt");
    std::vector<std::uint32_t> hashes;
    for (const auto& [broker, id] : golden_queues(256, false)) {
      hashes.push_back(tenon::allocator::ring_hash(
          fmt::format("MessageQueue [topic=TopicTest, brokerName={}, queueId={}]", broker, id)));
    }
    for (int m = 1; m <= 64; ++m) {
      const auto members = golden_members(m);
      const tenon::allocator::Ring ring(
          std::vector<std::string_view>(members.begin(), members.end()), 10);
      std::string all = line_of(members.size(), {});
      std::vector<int> owner;
      for (std::size_t q = 1; q <= 256; ++q) {
        owner.push_back(static_cast<int>(ring.owner(hashes[q - 1])));
        const std::string got = line_of(members.size(), owner);
        if (const auto expected = golden.shown.find({m, static_cast<std::uint32_t>(q)});
            expected != golden.shown.end()) {
          CHECK(got == expected->second);
        }
        all += got;
      }
      CAPTURE(m);
      CHECK(tenon::crc32(std::as_bytes(std::span(all))) == golden.digests.at(m));
    }
  }
  TEST_CASE("machine room") {
    compare(load(tenon_entry_allocator_machine_room,
                 "tenon.allocator.machine-room",
                 "rooms = [\"r0\", \"r2\"]"),
            "machine-room.txt",
            true,
            true);
  }
  TEST_CASE("machine room nearby, both inner strategies") {
    // Rooms of AllocationGolden.java: the number of the broker modulo 4, the second part of the IP.
    std::string options = "rooms = [\n";
    for (int room = 0; room < 4; ++room) {
      std::string brokers;
      for (int b = room; b < 32; b += 4) {
        brokers += fmt::format("\"broker-{:02}\", ", b);
      }
      options += fmt::format(
          "{{ name = \"r{0}\", brokers = [{1}], clients = [\"10.{0}.\"] }},\n", room, brokers);
    }
    options += "]";
    compare(load(tenon_entry_allocator_machine_room_nearby,
                 "tenon.allocator.machine-room-nearby",
                 options),
            "machine-room-nearby-averagely.txt",
            false,
            false);
    compare(load(tenon_entry_allocator_machine_room_nearby,
                 "tenon.allocator.machine-room-nearby-circle",
                 options),
            "machine-room-nearby-circle.txt",
            false,
            false);
  }
}

TEST_SUITE("plugins/allocator rules") {
  TEST_CASE("every queue has exactly one member, for 1 to 64 members and 0 to 256 queues") {
    const auto averagely = [](auto... args) { tenon::allocator::averagely(args...); };
    const auto circle = [](auto... args) { tenon::allocator::circle(args...); };
    std::array<std::uint8_t, 256> owners{};
    bool good = true;
    const auto cover = [&](const auto& rule) {
      for (std::int64_t c = 1; c <= 64; ++c) {
        for (std::int64_t n = 0; n <= 256; ++n) {
          owners.fill(0);
          for (std::int64_t i = 0; i < c; ++i) {
            rule(n, c, i, [&](std::uint32_t k) { ++owners[k]; });
          }
          for (std::int64_t k = 0; k < 256; ++k) {
            good = good && owners[static_cast<std::size_t>(k)] == (k < n ? 1 : 0);
          }
        }
      }
    };
    cover(averagely);
    cover(circle);
    CHECK(good);
  }
}

TEST_SUITE("plugins/allocators") {
  TEST_CASE("the worked example of client.md §5.7") {
    const Group three{{"10.0.0.1@1000", "10.0.0.2@1000", "10.0.0.3@1000"},
                      {{"broker-a", 0},
                       {"broker-a", 1},
                       {"broker-a", 2},
                       {"broker-a", 3},
                       {"broker-b", 0},
                       {"broker-b", 1},
                       {"broker-b", 2},
                       {"broker-b", 3}}};
    CHECK(line(load(tenon_entry_allocator_consistent_hash, "tenon.allocator.consistent-hash"),
               three) == "3 8 : 1 2 2 0 1 0 0 2\n");
    CHECK(line(load(tenon_entry_allocator_averagely, "tenon.allocator.averagely"), three) ==
          "3 8 : 0 0 0 1 1 1 2 2\n");
    CHECK(tenon::allocator::ring_hash("10.0.0.1@1000-0") == 0xC07F0DBA);
    CHECK(tenon::allocator::ring_hash("MessageQueue [topic=TopicTest, brokerName=broker-a, "
                                      "queueId=0]") == 0x767D59FC);
  }
  TEST_CASE("MD5 of RFC 1321 A.5") {
    const auto hex = [](std::string_view text) {
      std::string out;
      for (const std::uint8_t b : tenon::allocator::md5(text)) {
        out += fmt::format("{:02x}", b);
      }
      return out;
    };
    CHECK(hex("") == "d41d8cd98f00b204e9800998ecf8427e");
    CHECK(hex("abc") == "900150983cd24fb0d6963f7d28e17f72");
    CHECK(hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") ==
          "d174ab98d277d9f5a5611c2c9f419d9f");
    CHECK(hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890") ==
          "57edf4a22be3c955ac49da2e2107b67a");
  }
  TEST_CASE("room names with more or fewer separators") {
    const auto a = load(tenon_entry_allocator_machine_room,
                        "tenon.allocator.machine-room",
                        "rooms = [\"hz\", \"\"]");
    const Group g{{"c"},
                  {{"hz@b", 0}, {"hz@b@", 1}, {"hz@b@x", 2}, {"hz@", 3}, {"hz", 4}, {"@b", 5}}};
    CHECK(allocate(a, g, 0) == std::vector<std::uint32_t>{0, 1, 5});
  }
  TEST_CASE("a fixed list, per topic or for all") {
    const auto a = load(tenon_entry_allocator_config,
                        "tenon.allocator.config",
                        "queues = [ { broker = \"a\", queue_id = 1 },\n"
                        "           { topic = \"Other\", broker = \"a\", queue_id = 2 } ]");
    Group g{{"c", "d"}, {{"a", 0}, {"a", 1}, {"a", 2}}};
    CHECK(allocate(a, g, 0) == std::vector<std::uint32_t>{1});
    g.topic = "Other";
    CHECK(allocate(a, g, 1) == std::vector<std::uint32_t>{1, 2});
  }
  TEST_CASE("wrong options are refused with their position") {
    CHECK(load(tenon_entry_allocator_config, "tenon.allocator.config")
              .failure()
              .find("queues is required") != std::string::npos);
    CHECK(load(tenon_entry_allocator_config,
               "tenon.allocator.config",
               "queues = [ { broker = 5, queue_id = 1 } ]")
              .failure()
              .find("options.toml:1:14") != std::string::npos);
    CHECK(load(tenon_entry_allocator_consistent_hash,
               "tenon.allocator.consistent-hash",
               "virtual_nodes = 0")
              .failure()
              .find("must be 1 to 10000") != std::string::npos);
  }
  TEST_CASE("who is not a member owns nothing, a group without members is an error") {
    const auto a = load(tenon_entry_allocator_averagely, "tenon.allocator.averagely");
    CHECK(allocate(a, {{"c"}, {{"a", 0}}}, 7).empty());
    tenon_allocate in{};
    in.size = sizeof in;
    std::size_t n = 0;
    CHECK(a->allocate(a.self(), &in, nullptr, 0, &n, nullptr) == TENON_INVALID);
  }
  TEST_CASE("an unknown room is an error that names the broker or the client") {
    const auto a = load(tenon_entry_allocator_machine_room_nearby,
                        "tenon.allocator.machine-room-nearby",
                        "rooms = [ { name = \"r\", brokers = [\"a\"], clients = [\"c\"] } ]");
    tenon_str clients[] = {{"c1", 2}};
    tenon_queue_ref queues[] = {{{"b", 1}, 0, 0}};
    tenon_allocate in{};
    in.size = sizeof in;
    in.clients = clients;
    in.client_count = 1;
    in.queues = queues;
    in.queue_count = 1;
    in.stride = sizeof queues[0];
    std::uint32_t out[1];
    std::size_t n = 0;
    tenon::host::ErrorBuffer error;
    const tenon_status status = a->allocate(a.self(), &in, out, 1, &n, error.raw());
    CHECK(status == TENON_INVALID);
    CHECK(error.make_error(status).detail.find("no room for broker b") != std::string::npos);
  }
}
