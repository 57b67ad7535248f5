#include "broker_harness.h"

#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using Code = proto::ResponseCode;

TEST_SUITE("broker/send") {
  TEST_CASE("a send creates its topic and is answered with ids") {
    TestBroker b;
    Client c(b.port());
    SUBCASE("JSON header") {
      c.kind = proto::HeaderKind::kJson;
    }
    SUBCASE("binary header") {
      c.kind = proto::HeaderKind::kRocketMq;
    }
    const auto r = c.call(send_command({.topic = "NewTopic", .queue_id = 2}));
    CHECK(r.code == Code::kSuccess);
    CHECK(r.kind == c.kind);
    CHECK(text_field(r, "msgId").size() == 32);
    CHECK(long_field(r, "queueId") == 2);
    CHECK(long_field(r, "queueOffset") == 0);
    CHECK(text_field(r, "MSG_REGION") == "DefaultRegion");
    CHECK(text_field(r, "TRACE_ON") == "true");
    // spec broker §23, 11: 4/4 queues, perm 6, from the header's default of 4.
    proto::Command get;
    get.code = proto::RequestCode::kGetTopicConfig;
    get.set("topic", "NewTopic");
    const auto topic = c.call(get);
    CHECK(topic.body.find("\"readQueueNums\":4") != std::string::npos);
    CHECK(topic.body.find("\"perm\":6") != std::string::npos);
    get.fields.clear();
    get.set("topic", "TBW102");
    const auto standard = c.call(get);
    CHECK(standard.body.find("\"readQueueNums\":8") != std::string::npos);
    CHECK(standard.body.find("\"perm\":7") != std::string::npos);
    // The topic is on the disk before the send is acknowledged.
    CHECK(read_text(b.folder()->path() / "config/topics.json").find("NewTopic") !=
          std::string::npos);
  }

  TEST_CASE("the stored record has CLUSTER, lacks WAIT and keeps the rest") {
    TestBroker b;
    Client c(b.port());
    SendSpec spec{.topic = "T", .queue_id = 1, .body = "b\0dy"};
    spec.body = std::string("b\0dy", 4);
    spec.properties = "KEYS\x01k1 k2\x02WAIT\x01true\x02TAGS\x01tagA\x02UNIQ_KEY\x01U1\x02";
    REQUIRE(c.call(send_command(spec)).code == 0);
    const auto r = c.call(pull_command({.queue_id = 1}));
    REQUIRE(r.code == 0);
    const auto messages = messages_of(r);
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].topic == "T");
    CHECK(messages[0].queue_id == 1);
    CHECK(as_text(messages[0].body) == spec.body);
    CHECK(messages[0].properties ==
          "KEYS\x01k1 k2\x02TAGS\x01tagA\x02UNIQ_KEY\x01U1\x02"
          "CLUSTER\x01"
          "DefaultCluster");
    CHECK(messages[0].store_host.port == b.port());
  }

  TEST_CASE("queue -1 is chosen by the broker and told") {
    // broker §23.13
    TestBroker b;
    Client c(b.port());
    for (int i = 0; i < 20; ++i) {
      const auto r = c.call(send_command({.queue_id = -1}));
      CHECK(r.code == 0);
      CHECK(long_field(r, "queueId") >= 0);
      CHECK(long_field(r, "queueId") < 4);
    }
  }

  TEST_CASE("checks in Java's order, codes and remarks") {
    // broker §23.13 to §23.16
    TestBroker b;
    Client c(b.port());
    const auto refused = [&](const SendSpec& s, std::int32_t code, std::string_view remark) {
      const auto r = c.call(send_command(s));
      CHECK_MESSAGE(r.code == code, s.topic << ": " << r.remark);
      CHECK_MESSAGE(r.remark.find(remark) != std::string::npos, r.remark);
      CHECK(text_field(r, "MSG_REGION") == "DefaultRegion");
      CHECK(text_field(r, "TRACE_ON") == "true");
    };
    refused({.topic = ""}, 1, "blank");
    refused({.topic = "a#b"}, 1, "illegal characters");
    refused({.topic = std::string(128, 'x')}, 1, "longer than topic max length");
    for (const char* topic : {"SCHEDULE_TOPIC_XXXX",
                              "RMQ_SYS_TRANS_HALF_TOPIC",
                              "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                              "TRANS_CHECK_MAX_TIME_TOPIC",
                              "SELF_TEST_TOPIC",
                              "OFFSET_MOVED_EVENT"}) {
      refused({.topic = topic}, 16, "Sending message to topic[" + std::string(topic) + "]");
    }
    REQUIRE(c.call(send_command({.queue_id = 3})).code == 0);
    refused({.queue_id = 4}, 1, "request queueId[4] is illegal");
    refused({.topic = "Unknown", .default_topic = "NoSuchDefault"}, 17, "not exist");
  }

  TEST_CASE("a missing required field is answered 1, and the connection lives on") {
    TestBroker b;
    Client c(b.port());
    proto::Command broken;
    broken.code = proto::RequestCode::kSendMessageV2;
    broken.set("b", "T");
    CHECK(c.call(broken).code == 1);
    CHECK(c.call(send_command({})).code == 0);
  }

  TEST_CASE("limits of body and properties on both sides") {
    // broker §23.19, store §26.7
    BrokerConfig config = test_config("");
    config.message_max_bytes = 4096;
    TestBroker b(config);
    Client c(b.port());
    CHECK(c.call(send_command({.body = std::string(4096, 'x')})).code == 0);
    const auto large = c.call(send_command({.body = std::string(4097, 'x')}));
    CHECK(large.code == 13);
    CHECK(large.remark.find("msg body length limit 4096B, msg properties length limit 32KB.") !=
          std::string::npos);
    CHECK(c.call(send_command({.body = ""})).code == 0);  // spec remoting §6.1: accepted
    // CLUSTER is added by the broker and counts: 32767 in all.
    const std::string added =
        "\x02"
        "CLUSTER\x01"
        "DefaultCluster";
    const std::string fits = "K\x01" + std::string(32767 - 2 - added.size(), 'v');
    CHECK(c.call(send_command({.properties = fits})).code == 0);
    CHECK(c.call(send_command({.properties = fits + "v"})).code == 13);
    std::string umlauts = "K\x01";  // few characters, many bytes
    for (int i = 0; i < 20'000; ++i) {
      umlauts += "é";
    }
    CHECK(c.call(send_command({.properties = umlauts})).code == 13);
  }

  TEST_CASE("automatic creation off: 17, also with TBW102 in the file") {
    // broker §23.12; the file: meta_test
    BrokerConfig config = test_config("");
    config.auto_create_topic = false;
    TestBroker b(config);
    Client c(b.port());
    CHECK(c.call(send_command({.topic = "Unknown"})).code == 17);
  }

  TEST_CASE("a retry topic is created even then, with one queue") {
    // broker §23.15
    BrokerConfig config = test_config("");
    config.auto_create_topic = false;
    TestBroker b(config);
    Client c(b.port());
    CHECK(c.call(send_command({.topic = "%RETRY%g"})).code == 0);
    CHECK(c.call(send_command({.topic = "%RETRY%g", .queue_id = 1})).code == 1);
  }

  TEST_CASE("a retry that was repeated too often lands in the dead letters without delay") {
    // broker §23.26
    TestBroker b;
    Client c(b.port());
    SendSpec spec{.topic = "%RETRY%g",
                  .properties =
                      "DELAY\x01"
                      "5"};
    spec.reconsume_times = 16;
    const auto r = c.call(send_command(spec));
    REQUIRE(r.code == 0);
    const auto pulled = c.call(pull_command({.topic = "%DLQ%g"}));
    REQUIRE(pulled.code == 0);
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].topic == "%DLQ%g");
    CHECK(proto::find_property(messages[0].properties, "DELAY") == "-1");
  }

  TEST_CASE("one-way sends are stored and never answered") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);  // the topic exists now
    auto oneway = send_command({.body = "quiet"});
    oneway.flag = proto::kFlagOneway;
    const auto opaque = c.send(oneway);
    CHECK(long_field(c.call(send_command({})), "queueOffset") == 2);
    CHECK_FALSE(c.try_receive(opaque, std::chrono::milliseconds(20)).has_value());
  }

  TEST_CASE("many sends in one write are appended in order and all answered") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    std::vector<std::int32_t> opaques;
    for (int i = 0; i < 500; ++i) {
      opaques.push_back(c.send(send_command({.body = std::to_string(i)})));
    }
    for (int i = 0; i < 500; ++i) {
      CHECK(long_field(c.receive(opaques[static_cast<std::size_t>(i)]), "queueOffset") == i + 1);
    }
  }

  TEST_CASE("a batch becomes ordinary messages with the outer properties appended") {
    TestBroker b;
    Client c(b.port());
    std::string body;
    proto::append_batch_entry(body, 0, "x", "TAGS\x01tagX");
    proto::append_batch_entry(body, 7, "yy", "");
    auto batch = send_command({.queue_id = 1, .body = body, .properties = "WAIT\x01true"});
    batch.code = proto::RequestCode::kSendBatchMessage;
    for (auto& [key, value] : batch.fields) {
      if (key == "m") {
        value = "true";
      }
    }
    const auto r = c.call(batch);
    REQUIRE(r.code == 0);
    CHECK(text_field(r, "msgId").size() == 65);  // two ids and a comma
    CHECK(long_field(r, "queueOffset") == 0);
    const auto pulled = c.call(pull_command({.queue_id = 1}));
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 2);
    CHECK(as_text(messages[0].body) == "x");
    CHECK(messages[0].queue_offset == 0);
    CHECK(proto::find_property(messages[0].properties, "TAGS") == "tagX");
    CHECK(proto::find_property(messages[0].properties, "CLUSTER") == "DefaultCluster");
    CHECK(proto::find_property(messages[0].properties, "WAIT") == "true");
    CHECK(messages[1].queue_offset == 1);
    CHECK(messages[1].flag == 7);
    CHECK(proto::find_property(messages[1].properties, "CLUSTER") == "DefaultCluster");
    CHECK(proto::offset_message_id(messages[0].store_host, messages[0].phys_offset) + "," +
              proto::offset_message_id(messages[1].store_host, messages[1].phys_offset) ==
          text_field(r, "msgId"));

    SUBCASE("delayed: refused") {
      // broker §23.21
      for (auto& [key, value] : batch.fields) {
        value = key == "i" ? std::string(
                                 // broker §23.21
                                 "DELAY\x01"
                                 "3")
                           : value;
      }
      CHECK(c.call(batch).code == 13);
    }
    SUBCASE("transactional: refused") {
      for (auto& [key, value] : batch.fields) {
        value = key == "f" ? "4" : value;
      }
      CHECK(c.call(batch).code == 13);
    }
    SUBCASE("more than a message may have: refused, whatever each has") {
      batch.body.clear();
      proto::append_batch_entry(batch.body, 0, std::string(3 << 20, 'x'), "");
      proto::append_batch_entry(batch.body, 0, std::string(3 << 20, 'x'), "");
      CHECK(c.call(batch).code == 13);
    }
    SUBCASE("cut off: refused") {
      batch.body.pop_back();
      CHECK(c.call(batch).code == 1);  // Java's decoder throws
      batch.body.clear();
      CHECK(c.call(batch).code == 13);
    }
  }

  TEST_CASE(
      "the elements of a batch whose flag says compressed are stored as they came, each with it") {
    TestBroker b;
    Client c(b.port());
    std::string body;
    for (const char* element : {"\x78\x9c one", "\x78\x9c two", "\x78\x9c three"}) {
      proto::append_batch_entry(body, 0, element, "");
    }
    auto batch = send_command({.body = body, .sys_flag = 0x1 | 0x300});
    batch.code = proto::RequestCode::kSendBatchMessage;
    for (auto& [key, value] : batch.fields) {
      value = key == "m" ? "true" : value;
    }
    REQUIRE(c.call(batch).code == 0);
    const auto pulled = c.call(pull_command({}));
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 3);
    for (const auto& m : messages) {
      CHECK(m.sys_flag == (0x1 | 0x300));
    }
    CHECK(as_text(messages[2].body) == "\x78\x9c three");
  }

  TEST_CASE("an inner batch of a 5.x client is one message, with its flags and numbers") {
    TestBroker b;
    Client c(b.port());
    std::string inner;
    proto::append_batch_entry(inner, 0, "one", "");
    proto::append_batch_entry(inner, 0, "two", "");
    // 0x40 to be unwrapped, 0x80 inner batch: bits of the client (spec remoting §9.3).
    const auto sent = c.call(send_command({.body = inner,
                                           .properties = "INNER_NUM\x01"
                                                         "2",
                                           .sys_flag = 0x40 | 0x80}));
    REQUIRE(sent.code == 0);
    CHECK(text_field(sent, "msgId").size() == 32);
    const auto pulled = c.call(pull_command({}));
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 1);
    CHECK(messages[0].sys_flag == (0x40 | 0x80));
    CHECK(as_text(messages[0].body) == inner);
    CHECK(proto::find_property(messages[0].properties, "INNER_NUM") == "2");
  }

  TEST_CASE("compressed bodies are stored as they came, with all compression flags") {
    TestBroker b;
    Client c(b.port());
    // 0x1 compressed; 0x100 lz4, 0x200 zstd, 0x300 zlib in the bits above (spec remoting §9.3).
    const std::int32_t flags[] = {0x1, 0x1 | 0x100, 0x1 | 0x200, 0x1 | 0x300};
    for (const std::int32_t flag : flags) {
      REQUIRE(c.call(send_command({.body = "\x78\x9c opaque", .sys_flag = flag})).code == 0);
    }
    const auto pulled = c.call(pull_command({}));
    const auto messages = messages_of(pulled);
    REQUIRE(messages.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(messages[i].sys_flag == flags[i]);
      CHECK(as_text(messages[i].body) == "\x78\x9c opaque");
    }
  }

  TEST_CASE("properties of light queues, traces and batches of 5.x are carried untouched") {
    TestBroker b;
    Client c(b.port());
    const std::string properties =
        "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_NUM\x01"
        "3\x02TRACE_CONTEXT\x01t\x02__SHARDINGKEY\x01k";
    REQUIRE(c.call(send_command({.properties = properties})).code == 0);
    const auto pulled = c.call(pull_command({}));
    REQUIRE(messages_of(pulled).size() == 1);
    CHECK(messages_of(pulled)[0].properties.starts_with(properties));
  }

  TEST_CASE("before its time the broker refuses sends") {
    ManualClock clock;
    BrokerConfig config = test_config("");
    config.accept_send_from_ms = clock.wall_ms() + 60'000;
    TestBroker b(config, &clock);
    Client c(b.port());
    const auto r = c.call(send_command({}));
    CHECK(r.code == 1);
    CHECK(r.remark.find("broker unable to service, until 20") == 0);
  }

  TEST_CASE("without write permission only order topics are refused") {
    // Trap: draining works through the route; a producer with an old one still succeeds (§5.1).
    BrokerConfig config = test_config("");
    config.permission = 4;
    TestBroker b(config);
    Client c(b.port());
    CHECK(c.call(send_command({})).code == 0);
  }

  TEST_CASE("a synchronous flush answers after the disk, WAIT=false at once") {
    BrokerConfig config = test_config("");
    config.sync_flush = true;
    TestBroker b(config);
    Client c(b.port());
    const auto waited = c.call(send_command({}));
    CHECK(waited.code == 0);
    CHECK(text_field(waited, "msgId").size() == 32);
    const auto quick = c.call(send_command({.properties = "WAIT\x01"
                                                          "false"}));
    CHECK(quick.code == 0);
    CHECK(long_field(quick, "queueOffset") == 1);
  }
}
