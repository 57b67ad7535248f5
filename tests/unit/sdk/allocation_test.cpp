#include "paths.h"
#include "plugins.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace tenon::sdk;

namespace {
std::vector<Queue> queues(std::size_t n) {
  std::vector<Queue> out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back({"T", "b", static_cast<int>(i)});
  }
  return out;
}
}  // namespace

TEST_SUITE("sdk/allocation") {
  TEST_CASE("the built-in allocation equals that of the official Java client") {
    // One line per case: members, queues, colon, the owner of each queue.
    std::ifstream in(tenon::test::data_dir() + "/allocation/averagely.txt");
    REQUIRE(in.good());  // client §14.29, §11 D5
    int cases = 0;
    std::string line;
    while (std::getline(in, line)) {
      if (line.empty() || line[0] == '#' || line.starts_with("digest")) {
        continue;
      }
      std::istringstream text(line);
      std::size_t members = 0;
      std::size_t count = 0;
      std::string colon;
      text >> members >> count >> colon;
      std::vector<std::size_t> expected(count, 0);
      for (std::size_t& owner : expected) {
        text >> owner;
      }
      const std::vector<Queue> all = queues(count);
      std::vector<std::size_t> got(count, members);
      for (std::size_t m = 0; m < members; ++m) {
        for (const Queue& q : allocate_averagely(all, members, m)) {
          got[static_cast<std::size_t>(q.id)] = m;
        }
      }
      CAPTURE(line);
      CHECK(got == expected);
      ++cases;
    }
    CHECK(cases > 100);
  }

  TEST_CASE("AVG and no name are the built-in one, an unknown name is refused") {
    Plugins plugins({});
    CHECK(plugins.allocator("").value()->wire_name() == "AVG");
    CHECK(plugins.allocator("AVG").value()->wire_name() == "AVG");
    CHECK(plugins.allocator("NO_SUCH_STRATEGY").error().is(Errc::kNotFound));
    CHECK(plugins.allocator("org.example.no-such").error().is(Errc::kNotFound));
    CHECK(plugins.selector("org.example.no-such").error().is(Errc::kNotFound));
  }
}
