#include "tenon/proto/topics.h"

#include <doctest/doctest.h>

TEST_SUITE("proto/topics") {
  TEST_CASE("topics of RocketMQ itself") {  // broker §4.1
    for (const char* name : {"TBW102", "OFFSET_MOVED_EVENT", "rmq_sys_wheel_timer"}) {
      CAPTURE(name);
      CHECK(tenon::proto::is_system_topic(name));
    }
    for (const char* name : {"", "T", "TBW1021", "tbw102", "%RETRY%g", "xrmq_sys_"}) {
      CAPTURE(name);
      CHECK_FALSE(tenon::proto::is_system_topic(name));
    }
  }
}
