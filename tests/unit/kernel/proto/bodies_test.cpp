#include "tenon/proto/bodies.h"

#include "hex.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/message.h"

#include <doctest/doctest.h>

using namespace tenon;
using namespace tenon::proto;

namespace {

/// Decoding and encoding again gives the same text.
#define CHECK_ROUND_TRIP(text, decode, ...)                                \
  do {                                                                     \
    const std::string expected = (text);                                   \
    const auto decoded = decode(expected);                                 \
    REQUIRE_MESSAGE(decoded.has_value(), expected);                        \
    CHECK(encode(decoded.value() __VA_OPT__(, ) __VA_ARGS__) == expected); \
  } while (false)

}  // namespace

TEST_SUITE("proto/bodies") {
  TEST_CASE("configuration files are written as Java writes them") {
    // spec/store.md §8.3, recorded from a 4.9.8 broker.
    CHECK_ROUND_TRIP(
        "{\n\t\"dataVersion\":{\n\t\t\"counter\":3,\n\t\t\"timestamp\":1796010160491\n\t},\n"
        "\t\"topicConfigTable\":{\n\t\t\"TopicA\":{\n\t\t\t\"order\":false,\n\t\t\t\"perm\":6,\n"
        "\t\t\t\"readQueueNums\":4,\n\t\t\t\"topicFilterType\":\"SINGLE_TAG\",\n"
        "\t\t\t\"topicName\":\"TopicA\",\n\t\t\t\"topicSysFlag\":0,\n\t\t\t\"writeQueueNums\":4\n"
        "\t\t}\n\t}\n}",
        decode_topic_table,
        true);
    CHECK_ROUND_TRIP(
        "{\n\t\"offsetTable\":{\n\t\t\"%RETRY%CG1@CG1\":{0:0\n\t\t},\n"
        "\t\t\"TopicA@CG1\":{0:7,1:0,2:0,3:1\n\t\t}\n\t}\n}",
        decode_consumer_offset_table,
        true);
    CHECK_ROUND_TRIP(
        "{\n\t\"dataVersion\":{\n\t\t\"counter\":2,\n\t\t\"timestamp\":1796010160477\n\t},\n"
        "\t\"subscriptionGroupTable\":{\n\t\t\"CG1\":{\n\t\t\t\"brokerId\":0,\n"
        "\t\t\t\"consumeBroadcastEnable\":true,\n\t\t\t\"consumeEnable\":true,\n"
        "\t\t\t\"consumeFromMinEnable\":true,\n\t\t\t\"groupName\":\"CG1\",\n"
        "\t\t\t\"notifyConsumerIdsChangedEnable\":true,\n\t\t\t\"retryMaxTimes\":16,\n"
        "\t\t\t\"retryQueueNums\":1,\n\t\t\t\"whichBrokerWhenConsumeSlowly\":1\n\t\t}\n\t}\n}",
        decode_subscription_group_table,
        true);
    CHECK_ROUND_TRIP("{\n\t\"offsetTable\":{2:1\n\t}\n}", decode_delay_offset_table, true);
    CHECK_ROUND_TRIP("{\n\t\"offsetTable\":{}\n}", decode_delay_offset_table, true);
  }

  TEST_CASE("members that we do not know survive rewriting in their place") {
    CHECK_ROUND_TRIP(
        R"({"dataVersion":{"counter":3,"stateVersion":7,"timestamp":9},"forbidden":{"a":[1]},)"
        R"("topicConfigTable":{"T":{"attributes":{"+k":"v"},"order":true,"perm":6,)"
        R"("readQueueNums":1,"topicFilterType":"MULTI_TAG","topicName":"T","topicSysFlag":3,)"
        R"("writeQueueNums":2,"zz":1.5}},"zz":null})",
        decode_topic_table);
    CHECK_ROUND_TRIP(
        R"({"dataVersion":{"counter":2,"timestamp":1},"forbiddenTable":{},)"
        R"("subscriptionGroupTable":{"g":{"attributes":{},"brokerId":0,)"
        R"("consumeBroadcastEnable":true,"consumeEnable":false,"consumeFromMinEnable":true,)"
        R"("consumeMessageOrderly":false,"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED"},)"
        R"("notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":1,)"
        R"("whichBrokerWhenConsumeSlowly":1}}})",
        decode_subscription_group_table);
    CHECK_ROUND_TRIP(R"({"dataVersion":{"counter":1},"offsetTable":{"T@g":{0:5,1:7}}})",
                     decode_consumer_offset_table);
  }

  TEST_CASE("integer keys may be quoted or not") {
    const auto bare = decode_consumer_offset_table("{\"offsetTable\":{\"T@g\":{0:5,1:7}}}");
    const auto quoted =
        decode_consumer_offset_table("{\"offsetTable\":{\"T@g\":{\"0\":5,\"1\":\"7\"}}}");
    REQUIRE(bare.has_value());
    REQUIRE(quoted.has_value());
    CHECK(bare.value().offsets == quoted.value().offsets);
    CHECK_FALSE(decode_consumer_offset_table("{\"offsetTable\":{\"T@g\":{x:5}}}").has_value());
    CHECK_FALSE(
        decode_consumer_offset_table("{\"offsetTable\":{\"T@g\":{4294967296:5}}}").has_value());
  }

  TEST_CASE("a heartbeat of the C++ client is understood") {
    // spec/remoting.md §2: ordinals, missing sets, numbers as strings.
    const auto r = decode_heartbeat(
        R"({"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":0,"groupName":"g",)"
        R"("messageModel":0,"subscriptionDataSet":[{"codeSet":["2598919"],"subString":"TagA",)"
        R"("subVersion":"17","tagsSet":["TagA"],"topic":"T"},{"topic":"U","expressionType":""}]}]})");
    REQUIRE(r.has_value());
    const HeartbeatData& h = r.value();
    CHECK(h.client_id == "c");
    CHECK(h.producer_groups.empty());
    REQUIRE(h.consumers.size() == 1);
    const ConsumerData& c = h.consumers[0];
    CHECK(c.consume_from_where == ConsumeFromWhere::kFirstOffset);
    CHECK(c.consume_type == ConsumeType::kActively);
    CHECK(c.message_model == MessageModel::kBroadcasting);
    REQUIRE(c.subscriptions.size() == 2);
    CHECK(c.subscriptions[0].codes == std::set<std::int32_t>{2598919});
    CHECK(c.subscriptions[0].sub_version == 17);
    CHECK(c.subscriptions[1].expression_type == "TAG");
  }

  TEST_CASE("heartbeats round trip and ignore what 5.x adds") {
    CHECK_ROUND_TRIP(
        R"({"clientID":"1.2.3.4@5","consumerDataSet":[{"consumeFromWhere":)"
        R"("CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g",)"
        R"("messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,)"
        R"("codeSet":[2112],"expressionType":"TAG","subString":"Aa || BB","subVersion":3,)"
        R"("tagsSet":["Aa","BB"],"topic":"T"}],"unitMode":true}],"producerDataSet":)"
        R"([{"groupName":"p"},{"groupName":"CLIENT_INNER_PRODUCER"}]})",
        decode_heartbeat);
    const auto r =
        decode_heartbeat(R"({"clientID":"c","heartbeatFingerprint":0,"withoutSub":false})");
    REQUIRE(r.has_value());
    CHECK(r.value().consumers.empty());
  }

  TEST_CASE("bodies of the wrong shape name the member") {
    CHECK(decode_heartbeat("").error().code == Errc::kInvalid);
    CHECK(decode_heartbeat("[]").error().detail == "heartbeat: no object");
    CHECK(decode_heartbeat(R"({"consumerDataSet":{}})").error().detail ==
          "heartbeat: consumerDataSet is no array");
    CHECK_FALSE(decode_heartbeat(R"({"consumerDataSet":[1]})").has_value());
    CHECK(decode_topic_table(R"({"topicConfigTable":{"T":{"perm":"x"}}})").error().detail ==
          "topic table: perm is no integer");
    CHECK_FALSE(
        decode_topic_table(R"({"topicConfigTable":{"T":{"perm":2147483648}}})").has_value());
    CHECK_FALSE(decode_topic_table(R"({"topicConfigTable":{"T":1}})").has_value());
    CHECK_FALSE(decode_topic_table(R"({"topicConfigTable":[]})").has_value());
    CHECK_FALSE(decode_lock_request(R"({"mqSet":[5]})").has_value());
    CHECK_FALSE(decode_reset_offset(R"({"offsetTable":{"x":1}})").has_value());
    CHECK_FALSE(decode_topic_route(R"({"queueDatas":[1]})").has_value());
    CHECK_FALSE(decode_topic_route(R"({"brokerDatas":[{"brokerAddrs":{"x":"y"}}]})").has_value());
  }

  TEST_CASE("subscriptions are built as the broker builds them") {
    // spec/broker.md §9.1.
    CHECK(build_subscription("T", "*", "TAG").value().tags.empty());
    CHECK(build_subscription("T", "", "").value().sub_string == "*");
    const SubscriptionData s = build_subscription("T", " TagA||\u8BA2\u5355 || || Aa", "").value();
    CHECK(s.tags == std::set<std::string>{"TagA", "\u8BA2\u5355", "Aa"});
    CHECK(s.codes == std::set<std::int32_t>{2598919, 1129459, 2112});
    CHECK(s.expression_type == "TAG");
    CHECK(build_subscription("T", "||", "TAG").error().detail == "subString split error");
    CHECK(build_subscription("T", "a IS NOT NULL", "SQL92").value().tags.empty());
    CHECK(build_subscription("T", "", "SQL92").error().code == Errc::kInvalid);
  }

  TEST_CASE("routes come in both dialects") {
    // spec/remoting.md §8.4.
    TopicRoute r;
    BrokerData b;
    b.broker_name = "broker-a";
    b.cluster = "DefaultCluster";
    b.addrs = {{0, "127.0.0.1:10911"}, {1, "127.0.0.1:10921"}};
    r.brokers = {b};
    QueueData q;
    q.broker_name = "broker-a";
    q.perm = 6;
    q.read_queue_count = 4;
    q.write_queue_count = 4;
    r.queues = {q};
    CHECK(encode(r, false) ==
          R"({"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},)"
          R"("brokerName":"broker-a","cluster":"DefaultCluster"}],"filterServerTable":{},)"
          R"("queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,)"
          R"("writeQueueNums":4}]})");
    r.order_topic_conf = "broker-\u8BA2:4";
    CHECK(encode(r, true) ==
          R"({"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"},)"
          R"("brokerName":"broker-a","cluster":"DefaultCluster"}],"filterServerTable":{},)"
          R"("orderTopicConf":"broker-\u8BA2:4","queueDatas":[{"brokerName":"broker-a","perm":6,)"
          R"("readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]})");
    CHECK(decode_topic_route(encode(r, true)).value() == r);
    CHECK(decode_topic_route(encode(r, false)).value() == r);
    const auto old = decode_topic_route(R"({"queueDatas":[{"brokerName":"b","topicSynFlag":3}]})");
    CHECK(old.value().queues[0].sys_flag == 3);
  }

  TEST_CASE("registrations plain, bare and compressed") {
    RegisterBrokerBody b;
    b.topics.version.counter = 3;
    b.topics.version.timestamp = 1700000000000;
    TopicConfig c;
    c.name = "T1";
    c.read_queue_count = 4;
    c.write_queue_count = 4;
    b.topics.topics = {{"T1", c}};
    CHECK(encode(b) ==
          R"({"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,)"
          R"("timestamp":1700000000000},"topicConfigTable":{"T1":{"order":false,"perm":6,)"
          R"("readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,)"
          R"("writeQueueNums":4}}}})");
    const auto plain = decode_register_broker_body(encode(b), false, 409);
    REQUIRE(plain.has_value());
    CHECK(plain.value().topics.topics == b.topics.topics);
    const auto bare = decode_register_broker_body(encode(b.topics), false, 36);
    REQUIRE(bare.has_value());
    CHECK(bare.value().topics.topics == b.topics.topics);
    CHECK(decode_register_broker_body("", true, 409).value().topics.version == DataVersion{});

    // spec/remoting.md §8.1, inflated example.
    const std::string inflated =
        test::unhex("00000027") + R"({"counter":3,"timestamp":1700000000000})" +
        test::unhex("00000001 00000013") + "T1 4 4 6 SINGLE_TAG" + test::unhex("00000002") + "[]";
    const auto packed = encode_compressed(b);
    REQUIRE(packed.has_value());
    CHECK(decompress(as_bytes(packed.value()), 1).value() == inflated);
    const auto back = decode_register_broker_body(packed.value(), true, 409);
    REQUIRE(back.has_value());
    CHECK(back.value().topics.version == b.topics.version);
    CHECK(back.value().topics.topics == b.topics.topics);

    for (std::size_t n = 0; n < inflated.size(); ++n) {
      const auto cut = compress(as_bytes(inflated).first(n), Compression::kZlib);
      CHECK_FALSE(decode_register_broker_body(cut.value(), true, 409).has_value());
    }
    CHECK_FALSE(decode_register_broker_body("garbage", true, 409).has_value());
    const std::string five = test::unhex("00000002") + "{}" + test::unhex("00000001 0000001A") +
                             R"(T1 4 4 6 SINGLE_TAG {"+a":)" + test::unhex("00000002") + "[]" +
                             test::unhex("00000000");
    const auto attributes = decode_register_broker_body(
        compress(as_bytes(five), Compression::kZlib).value(), true, 479);
    REQUIRE(attributes.has_value());
    CHECK(attributes.value().topics.topics.at("T1").filter_type == "SINGLE_TAG");
  }

  TEST_CASE("locks, ids, lists and tables") {
    CHECK_ROUND_TRIP(
        R"({"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"T"}]})",
        decode_lock_request);
    CHECK(encode_lock_answer(
              decode_lock_answer(R"({"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]})")
                  .value()) == R"({"lockOKMQSet":[{"brokerName":"b","queueId":0,"topic":"T"}]})");
    CHECK(encode_consumer_ids(decode_consumer_ids(R"({"consumerIdList":["b","a"]})").value()) ==
          R"({"consumerIdList":["b","a"]})");
    CHECK_ROUND_TRIP(R"({"brokerAddr":"a:1","topicList":["x","y"]})", decode_topic_list);
    CHECK_ROUND_TRIP(R"({"topicList":[]})", decode_topic_list);
    CHECK(encode_kv_table(decode_kv_table(R"({"table":{"k":"v","n":1}})").value()) ==
          R"({"table":{"k":"v","n":"1"}})");
    CHECK(encode_kv_config_table(
              decode_kv_config_table(R"({"configTable":{"ns":{"k":"v"},"empty":{}}})").value()) ==
          R"({"configTable":{"empty":{},"ns":{"k":"v"}}})");
    CHECK_ROUND_TRIP(
        R"({"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"ip:1"},"brokerName":"broker-a",)"
        R"("cluster":"C"}},"clusterAddrTable":{"C":["broker-a"]}})",
        decode_cluster_info);
    CHECK(
        encode_broker_member_group(
            decode_broker_member_group(
                R"({"brokerMemberGroup":{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}})")
                .value()) ==
        R"({"brokerMemberGroup":{"brokerAddrs":{0:"a:1"},"brokerName":"b","cluster":"c"}})");
    CHECK(encode_correction_offsets(
              decode_correction_offsets(R"({"correctionOffsets":{0:3,1:4}})").value()) ==
          R"({"correctionOffsets":{0:3,1:4}})");
  }

  TEST_CASE("offset resets in both forms") {
    const std::map<MessageQueue, std::int64_t> table{{{"T", "b", 1}, 123}, {{"T", "a", 2}, 4}};
    const std::string keys = encode_reset_offset(table, false);
    CHECK(keys == R"({"offsetTable":{{"brokerName":"a","queueId":2,"topic":"T"}:4,)"
                  R"({"brokerName":"b","queueId":1,"topic":"T"}:123}})");
    const std::string list = encode_reset_offset(table, true);
    CHECK(list == R"({"offsetTable":[{"brokerName":"a","offset":4,"queueId":2,"topic":"T"},)"
                  R"({"brokerName":"b","offset":123,"queueId":1,"topic":"T"}]})");
    CHECK(decode_reset_offset(keys).value() == table);
    CHECK(decode_reset_offset(list).value() == table);
    // client.md §5.4: offsets.json of a broadcasting consumer.
    const std::string local =
        "{\n\t\"offsetTable\":{{\n\t\t\t\"brokerName\":\"broker-a\",\n\t\t\t\"queueId\":3,\n"
        "\t\t\t\"topic\":\"TopicTest\"\n\t\t}:1470\n\t}\n}";
    const auto offsets = decode_local_offsets(local);
    REQUIRE(offsets.has_value());
    CHECK(encode_local_offsets(offsets.value()) == local);
  }

  TEST_CASE("statistics and state round trip") {
    CHECK_ROUND_TRIP(R"({"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:)"
                     R"({"lastUpdateTimestamp":1,"maxOffset":2,"minOffset":3}}})",
                     decode_topic_stats);
    CHECK_ROUND_TRIP(
        R"({"consumeTps":0.5,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:)"
        R"({"brokerOffset":9,"consumerOffset":5,"lastTimestamp":7}}})",
        decode_consume_stats);
    CHECK_ROUND_TRIP(
        R"({"connectionSet":[{"clientAddr":"1.2.3.4:5","clientId":"c","language":"GO",)"
        R"("version":317}],"consumeFromWhere":"CONSUME_FROM_TIMESTAMP","consumeType":)"
        R"("CONSUME_ACTIVELY","messageModel":"BROADCASTING","subscriptionTable":{"T":)"
        R"({"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*",)"
        R"("subVersion":1,"tagsSet":[],"topic":"T"}}})",
        decode_consumer_connection);
    CHECK_ROUND_TRIP(R"({"connectionSet":[]})", decode_producer_connection);
    CHECK_ROUND_TRIP(R"({"groupList":["g"]})", decode_group_list);
    CHECK_ROUND_TRIP(R"({"autoCommit":true,"consumeResult":"CR_THROW_EXCEPTION","order":false,)"
                     R"("remark":"r","spentTimeMills":1})",
                     decode_consume_directly_result);
    CHECK_ROUND_TRIP(R"({"consumerTable":{"c":{{"brokerName":"b","queueId":0,"topic":"T"}:5}},)"
                     R"("messageQueueTable":{}})",
                     decode_consumer_status);
    CHECK_ROUND_TRIP(
        R"({"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{"avgpt":1.0,"sum":2,)"
        R"("tps":0.5},"statsMinute":{"avgpt":0.0,"sum":1,"tps":0.1}})",
        decode_broker_stats_data);
    CHECK_ROUND_TRIP(
        R"({"clientId":"c","group":"g","subscriptionData":{"classFilterMode":false,"codeSet":[],)"
        R"("expressionType":"SQL92","subString":"a = 1","subVersion":1,"tagsSet":[],"topic":"T"}})",
        decode_check_client);
    CHECK_ROUND_TRIP(R"({"clientId":"","group":""})", decode_check_client);
    CHECK(encode_producer_table(
              decode_producer_table(
                  R"({"data":{"g":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":1,)"
                  R"("remoteIP":"/1.2.3.4:5","version":409}]}})")
                  .value()) ==
          R"({"data":{"g":[{"clientId":"c","language":"JAVA","lastUpdateTimestamp":1,)"
          R"("remoteIP":"/1.2.3.4:5","version":409}]}})");
    CHECK(encode_time_spans(
              decode_time_spans(
                  R"({"consumeTimeSpanSet":[{"consumeTimeStamp":1,"consumeTimeStampStr":"x",)"
                  R"("delayTime":2,"maxTimeStamp":3,"messageQueue":{"brokerName":"b","queueId":0,)"
                  R"("topic":"T"},"minTimeStamp":4}]})")
                  .value()) ==
          R"({"consumeTimeSpanSet":[{"consumeTimeStamp":1,"delayTime":2,"maxTimeStamp":3,)"
          R"("messageQueue":{"brokerName":"b","queueId":0,"topic":"T"},"minTimeStamp":4}]})");
    CHECK_ROUND_TRIP(
        R"({"jstack":"x","mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:)"
        R"({"cachedMsgCount":1,"cachedMsgMaxOffset":2,"cachedMsgMinOffset":3,)"
        R"("cachedMsgSizeInMiB":4,"commitOffset":5,"droped":true,"lastConsumeTimestamp":6,)"
        R"("lastLockTimestamp":7,"lastPullTimestamp":8,"locked":true,"transactionMsgCount":9,)"
        R"("transactionMsgMaxOffset":10,"transactionMsgMinOffset":11,"tryUnlockTimes":12}},)"
        R"("properties":{"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"},"statusTable":{"T":)"
        R"({"consumeFailedMsgs":1,"consumeFailedTPS":0.0,"consumeOKTPS":0.5,"consumeRT":1.0,)"
        R"("pullRT":0.0,"pullTPS":2.0}},"subscriptionSet":[{"classFilterMode":false,"codeSet":[],)"
        R"("expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],"topic":"T"}]})",
        decode_consumer_running_info);
    CHECK_ROUND_TRIP(R"({"order":false,"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG",)"
                     R"("topicName":"T","topicSysFlag":0,"writeQueueNums":1})",
                     decode_topic_config);
    CHECK_ROUND_TRIP(
        R"({"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,)"
        R"("consumeFromMinEnable":false,"groupName":"g","notifyConsumerIdsChangedEnable":true,)"
        R"("retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1})",
        decode_subscription_group);
    CHECK_ROUND_TRIP(R"({"counter":1,"timestamp":2})", decode_data_version);
  }
}
