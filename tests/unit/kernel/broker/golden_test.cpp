// A broker on the store folders of real RocketMQ brokers serves over the network what those brokers
// served (tests/data/store/README.md).
#include "broker_harness.h"
#include "golden_stores.h"
#include "paths.h"

#include "tenon/proto/json.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

struct Scenario {
  std::shared_ptr<TempFolder> folder = std::make_shared<TempFolder>();
  proto::JsonDocument expected;

  explicit Scenario(const std::string& name)
      : expected(load(name)) {
    const auto archive =
        std::filesystem::path(tenon::test::data_dir()) / "store" / name / "store.tar.gz";
    const std::string command = "tar -xzf '" + archive.string() + "' --strip-components=1 -C '" +
                                folder->path().string() + "'";
    REQUIRE(std::system(command.c_str()) == 0);
  }
  static proto::JsonDocument load(const std::string& name) {
    auto document = proto::JsonDocument::parse(read_text(
        std::filesystem::path(tenon::test::data_dir()) / "store" / name / "expected.json"));
    REQUIRE(document.has_value());
    return std::move(document).value();
  }
};

std::int64_t number(const proto::JsonNode& node, std::string_view key) {
  const auto n = node[key].integer();
  REQUIRE(n.has_value());
  return *n;
}

proto::Command queue_request(std::int32_t code, const proto::JsonNode& node) {
  proto::Command c;
  c.code = code;
  c.set("topic", node["topic"].string()).set("queueId", number(node, "queueId"));
  return c;
}

void check_queues(Client& c, const proto::JsonNode& queues) {
  for (std::size_t i = 0; i < queues.size(); ++i) {
    const proto::JsonNode q = queues.at(i);
    CAPTURE(q.dump());
    CHECK(long_field(c.call(queue_request(C::kGetMinOffset, q)), "offset") ==
          number(q, "minOffset"));
    CHECK(long_field(c.call(queue_request(C::kGetMaxOffset, q)), "offset") ==
          number(q, "maxOffset"));
    if (const auto earliest =
            q["earliestMsgStoreTime"].integer()) {  // null: the broker was not asked
      CHECK(long_field(c.call(queue_request(C::kGetEarliestMsgStoretime, q)), "timestamp") ==
            *earliest);
    }
  }
}

/// The whole queue by pulls of 32, by queue offset.
std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> read_queue(Client& c,
                                                                         const std::string& topic,
                                                                         std::int64_t queue_id) {
  std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> found;
  PullSpec spec{.group = "GoldenReader", .topic = topic};
  spec.queue_id = static_cast<std::int32_t>(queue_id);
  for (int pulls = 0; pulls < 10'000; ++pulls) {
    const auto r = c.call(pull_command(spec));
    if (r.code == 0) {
      for (const proto::MessageView& m : messages_of(r)) {
        CHECK(m.topic == topic);
        CHECK(m.queue_id == queue_id);
        found[m.queue_offset] = {m.phys_offset, m.total_bytes};
      }
    } else if (r.code == 19) {
      break;
    }
    spec.offset = long_field(r, "nextBeginOffset");
  }
  return found;
}

void check_messages(Client& c, const proto::JsonNode& messages) {
  std::map<std::pair<std::string, std::int64_t>,
           std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>>>
      expected;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const proto::JsonNode m = messages.at(i);
    expected[{std::string(m["topic"].string()), number(m, "queueId")}][number(m, "queueOffset")] = {
        number(m, "commitLogOffset"), number(m, "storeSize")};
  }
  for (const auto& [queue, records] : expected) {
    CAPTURE(queue.first);
    CAPTURE(queue.second);
    CHECK(read_queue(c, queue.first, queue.second) == records);
  }
}

void check_keys(Client& c, const proto::JsonNode& queries) {
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const proto::JsonNode q = queries.at(i);
    CAPTURE(q.dump());
    proto::Command request;
    request.code = C::kQueryMessage;
    request.set("topic", q["topic"].string()).set("key", q["key"].string());
    request.set("maxNum", number(q, "maxNum"));
    request.set("beginTimestamp", number(q, "beginTs")).set("endTimestamp", number(q, "endTs"));
    request.set("_UNIQUE_KEY_QUERY",
                q["uniqKeyQuery"].boolean().value_or(false) ? "true" : "false");
    const auto r = c.call(request);
    CHECK(r.code == number(q, "code"));
    std::multiset<std::int64_t> expected;
    for (std::size_t k = 0; k < q["offsets"].size(); ++k) {
      expected.insert(*q["offsets"].at(k).integer());
    }
    std::multiset<std::int64_t> found;
    for (const proto::MessageView& m : messages_of(r)) {
      found.insert(m.phys_offset);
    }
    CHECK(found == expected);
  }
}

void check_committed(Client& c, const proto::JsonNode& table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, queues] = table.member(i);
    const auto at = key.find('@');
    for (std::size_t k = 0; k < queues.size(); ++k) {
      const auto [queue_id, offset] = queues.member(k);
      proto::Command query;
      query.code = C::kQueryConsumerOffset;
      query.set("topic", key.substr(0, at)).set("consumerGroup", key.substr(at + 1));
      query.set("queueId", queue_id);
      CHECK(long_field(c.call(query), "offset") == offset.integer());
    }
  }
}

}  // namespace

TEST_SUITE("broker/golden") {
  TEST_CASE("stores of Java brokers are served as those served them") {
    const std::string name = tenon::test::each_golden([](const tenon::test::GoldenFolder& f) {
                               return f.plain && !f.waits;
                             }).name;
    const Scenario scenario(name);
    BrokerConfig config = test_config(scenario.folder->path());
    config.name = "broker-a";
    TestBroker b(scenario.folder, config);
    Client c(b.port());
    const proto::JsonNode expected = scenario.expected.root();
    check_queues(c, expected["queues"]);
    check_messages(c, expected["messages"]);
    check_keys(c, expected["keyQueries"]);
    check_committed(c, expected["config"]["consumerOffset.json"]["offsetTable"]);

    // Life goes on behind the old data; topics of the system come first, nobody sends to them.
    const proto::JsonNode last = expected["queues"].at(expected["queues"].size() - 1);
    const auto before = number(last, "maxOffset");
    SendSpec send{.topic = std::string(last["topic"].string())};
    send.queue_id = static_cast<std::int32_t>(number(last, "queueId"));
    CHECK(long_field(c.call(send_command(send)), "queueOffset") == before);
  }
}
