#include "validate.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon::sdk;

namespace {
Message message_to(std::string topic) {
  Message m;
  m.topic = std::move(topic);
  m.body = "x";
  return m;
}
}  // namespace

TEST_SUITE("sdk/validate") {
  TEST_CASE("topics: 127 characters are legal, 128 are not") {  // client §14.15
    CHECK(check_topic(std::string(127, 'a')).has_value());
    CHECK(check_topic(std::string(128, 'a')).error().remark ==
          "The specified topic is longer than topic max length 127.");
    CHECK(check_topic("a%b|c-1_").has_value());
    CHECK(check_topic("a.b").error().remark ==
          "The specified topic[a.b] contains illegal characters, allowing only "
          "^[%|a-zA-Z0-9_-]+$");
    CHECK(check_topic("").error().remark == "The specified topic is blank");
    CHECK(check_topic(" \t").error().remark == "The specified topic is blank");
  }

  TEST_CASE("groups: 255 characters are legal, 256 are not") {  // client §14.15
    CHECK(check_group(std::string(255, 'g')).has_value());
    CHECK(check_group(std::string(256, 'g')).error().remark ==
          "the specified group is longer than group max length 255.");
    CHECK(check_group("").error().remark == "the specified group is blank");
    CHECK_FALSE(check_group("a b").has_value());
  }

  TEST_CASE("bodies: none is refused, 4194304 bytes are legal, one more is not") {
    Message m = message_to("T");  // client §14.15
    m.body.clear();
    CHECK(check_message(m, 4194304).error().is(Errc::kMessageIllegal));
    CHECK(check_message(m, 4194304).error().remark == "the message body length is zero");
    m.body.assign(4194304, 'x');
    CHECK(check_message(m, 4194304).has_value());
    m.body += 'x';
    CHECK(check_message(m, 4194304).error().remark ==
          "the message body size over max value, MAX: 4194304");
  }

  TEST_CASE("topics of the system cannot be sent to") {
    for (const char* topic : {"SCHEDULE_TOPIC_XXXX",
                              "RMQ_SYS_TRANS_HALF_TOPIC",
                              "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                              "TRANS_CHECK_MAX_TIME_TOPIC",
                              "SELF_TEST_TOPIC",
                              "OFFSET_MOVED_EVENT"}) {
      CHECK(check_message(message_to(topic), 100).error().remark ==
            "Sending message to topic[" + std::string(topic) + "] is forbidden.");
    }
    CHECK(check_message(message_to("TBW102"), 100).has_value());
  }

  TEST_CASE("properties: system names, blanks and separators are refused") {  // client §11 L14
    Message m = message_to("T");
    m.properties = {{"KEYS", "x"}};
    CHECK(check_message(m, 100).error().remark ==
          "The Property<KEYS> is used by system, input another please");
    m.properties = {{"a", " "}};
    CHECK_FALSE(check_message(m, 100).has_value());
    m.properties = {{"", "a"}};
    CHECK_FALSE(check_message(m, 100).has_value());
    m.properties = {{"a",
                     "b\x01"
                     "c"}};  // would become another property on the wire
    CHECK_FALSE(check_message(m, 100).has_value());
    m.properties = {{"a\x02", "b"}};
    CHECK_FALSE(check_message(m, 100).has_value());
    m.properties = {{"名", "値"}};
    CHECK(check_message(m, 100).has_value());
    m.tag = "\x01";
    CHECK_FALSE(check_message(m, 100).has_value());
    m.tag = "t";
    m.keys = {"\x02"};
    CHECK_FALSE(check_message(m, 100).has_value());
  }

  TEST_CASE("the properties text has room for 32767 bytes") {  // client §11 L14
    CHECK(check_properties_size(32767).has_value());
    CHECK(check_properties_size(32768).error().is(Errc::kMessageIllegal));
  }
}
