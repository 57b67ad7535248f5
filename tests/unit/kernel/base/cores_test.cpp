#include "tenon/base/cores.h"

#include <doctest/doctest.h>

#include <thread>

#include <sched.h>

TEST_CASE("usable cores are those of the affinity mask") {
  CHECK(tenon::usable_cores() >= 1);
  std::size_t seen = 0;
  std::thread([&seen] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
    seen = tenon::usable_cores();
  }).join();
  CHECK(seen == 1);
}
