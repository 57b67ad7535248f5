// Frames and files recorded from official clients and servers (tests/data/wire, tests/data/config).
#include "hex.h"
#include "paths.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/command.h"
#include "tenon/proto/json.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

using namespace tenon;
using namespace tenon::proto;

namespace {

struct Recorded {
  std::string file{};
  HeaderKind kind = HeaderKind::kJson;
  std::int32_t request = -1;
  JsonDocument line;
  std::string raw{};
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::vector<Recorded>& recorded_frames() {
  static const std::vector<Recorded> frames = [] {
    std::vector<Recorded> all;
    for (const auto& entry :
         std::filesystem::directory_iterator(tenon::test::data_dir() + "/wire")) {
      if (entry.path().extension() != ".jsonl") {
        continue;
      }
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        auto document = JsonDocument::parse(line);
        REQUIRE(document.has_value());
        const JsonNode root = document.value().root();
        const auto kind = static_cast<HeaderKind>(root["kind"].integer().value());
        const auto request = static_cast<std::int32_t>(root["request"].integer().value());
        std::string raw = test::unhex(root["raw_hex"].string());
        all.push_back(Recorded{entry.path().filename().string(),
                               kind,
                               request,
                               std::move(document).value(),
                               std::move(raw)});
      }
    }
    return all;
  }();
  return frames;
}

/// A tree as text in which the order of members and elements does not count.
std::string canonical(JsonNode node) {
  std::vector<std::string> parts;
  std::string out;
  if (node.is_object()) {
    for (std::size_t i = 0; i < node.size(); ++i) {
      const auto [key, value] = node.member(i);
      // An object as key is JSON text itself.
      const auto inner = JsonDocument::parse(key);
      const bool is_object = inner.has_value() && inner.value().root().is_object();
      parts.push_back((is_object ? canonical(inner.value().root()) : std::string(key)) + ":" +
                      canonical(value));
    }
    out = "{";
  } else if (node.is_array()) {
    for (std::size_t i = 0; i < node.size(); ++i) {
      parts.push_back(canonical(node.at(i)));
    }
    out = "[";
  } else {
    return node.dump();
  }
  std::sort(parts.begin(), parts.end());
  for (const std::string& part : parts) {
    out += part + ",";
  }
  return out + (node.is_object() ? "}" : "]");
}

std::string canonical_text(std::string_view json) {
  const auto document = JsonDocument::parse(json);
  return document.has_value() ? canonical(document.value().root()) : "error";
}

void check_header(const CommandView& view, JsonNode header) {
  CHECK(view.code == header["code"].integer().value_or(0));
  CHECK(view.version == header["version"].integer().value_or(0));
  CHECK(view.opaque == header["opaque"].integer().value_or(0));
  CHECK(view.flag == header["flag"].integer().value_or(0));
  CHECK(view.remark == header["remark"].text().value_or(""));
  CHECK(view.language == language_from_name(header["language"].string()));
  const JsonNode fields = header["extFields"];
  std::size_t expected = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto [key, value] = fields.member(i);
    const auto text = value.text();
    if (!text || (text->empty() && view.kind == HeaderKind::kRocketMq)) {
      CHECK_FALSE(view.field(key).has_value());
      continue;
    }
    ++expected;
    INFO(std::string(key));
    CHECK(view.field(key) == *text);
  }
  CHECK(view.fields.size() == expected);
}

/// Decodes a body with one of our structs and encodes it again; the canonical text of the result,
/// "error …" if it does not decode.
using Recode = std::function<std::string(const CommandView&)>;

template <class F>
Recode with(F decode) {
  return [decode](const CommandView& c) {
    const auto r = decode(as_text(c.body));
    return r.has_value() ? canonical_text(encode(r.value())) : "error " + r.error().detail;
  };
}
template <class F, class E>
Recode with(F decode, E encoder) {
  return [decode, encoder](const CommandView& c) {
    const auto r = decode(as_text(c.body));
    return r.has_value() ? canonical_text(encoder(r.value())) : "error " + r.error().detail;
  };
}

std::string check_records(const CommandView& c) {
  auto rest = c.body;
  while (!rest.empty()) {
    const auto r = decode_message(rest);
    if (!r.has_value()) {
      return "error " + r.error().detail;
    }
    const MessageView& m = r.value();
    MessageRecord again;
    again.topic = m.topic;
    again.queue_id = m.queue_id;
    again.flag = m.flag;
    again.queue_offset = m.queue_offset;
    again.phys_offset = m.phys_offset;
    again.sys_flag = m.sys_flag;
    again.born_ms = m.born_ms;
    again.born_host = m.born_host;
    again.store_ms = m.store_ms;
    again.store_host = m.store_host;
    again.reconsume_times = m.reconsume_times;
    again.prepared_offset = m.prepared_offset;
    again.body = m.body;
    again.properties = m.properties;
    std::string bytes(encoded_message_bytes(again), '\0');
    encode_message(again, reinterpret_cast<std::byte*>(bytes.data()));
    const auto original = rest.first(static_cast<std::size_t>(m.total_bytes));
    if (bytes != as_text(original)) {
      return "error encoded again it differs";
    }
    if ((m.sys_flag & sys_flag::kCompressed) != 0 && !decompress(m.body, m.sys_flag).has_value()) {
      return "error cannot inflate";
    }
    rest = rest.subspan(original.size());
  }
  return "records";
}

std::string check_batch(const CommandView& c) {
  BatchReader reader(c.body);
  std::string again;
  for (BatchEntry entry; reader.next(entry);) {
    append_batch_entry(again, entry.flag, as_text(entry.body), entry.properties);
  }
  return reader.ok() && again == as_text(c.body) ? "records" : "error batch";
}

std::string check_registration(const CommandView& c) {
  const auto r = decode_register_broker_body(
      as_text(c.body), c.field_bool("compressed").value_or(false), c.version);
  if (const auto crc = c.field_int("bodyCrc32"); crc && *crc != 0 && *crc != crc32_java(c.body)) {
    return "error crc";
  }
  if (!r.has_value()) {
    return "error " + r.error().detail;
  }
  return c.field_bool("compressed").value_or(false) ? "records" : canonical_text(encode(r.value()));
}

const std::map<std::int32_t, Recode>& request_bodies() {
  static const std::map<std::int32_t, Recode> table{
      {RequestCode::kHeartBeat, with(decode_heartbeat)},
      {RequestCode::kLockBatchMq, with(decode_lock_request)},
      {RequestCode::kUnlockBatchMq, with(decode_lock_request)},
      {RequestCode::kRegisterBroker, check_registration},
      {RequestCode::kQueryDataVersion, with(decode_data_version)},
      {RequestCode::kCheckClientConfig, with(decode_check_client)},
      {RequestCode::kUpdateAndCreateSubscriptiongroup, with(decode_subscription_group)},
      {RequestCode::kResetConsumerClientOffset,
       with(decode_reset_offset, [](const auto& t) { return encode_reset_offset(t, false); })},
      {RequestCode::kSendBatchMessage, check_batch},
      {RequestCode::kCheckTransactionState, check_records},
      {RequestCode::kConsumeMessageDirectly, check_records},
  };
  return table;
}

const std::map<std::int32_t, Recode>& answer_bodies() {
  static const std::map<std::int32_t, Recode> table{
      {RequestCode::kPullMessage, check_records},
      {RequestCode::kLitePullMessage, check_records},
      {RequestCode::kQueryMessage, check_records},
      {RequestCode::kViewMessageById, check_records},
      {RequestCode::kGetRouteinfoByTopic,
       with(decode_topic_route, [](const TopicRoute& r) { return encode(r, false); })},
      {RequestCode::kGetBrokerClusterInfo, with(decode_cluster_info)},
      {RequestCode::kGetAllTopicListFromNameserver, with(decode_topic_list)},
      {RequestCode::kGetTopicsByCluster, with(decode_topic_list)},
      {RequestCode::kGetSystemTopicListFromNs, with(decode_topic_list)},
      {RequestCode::kGetSystemTopicListFromBroker, with(decode_topic_list)},
      {RequestCode::kGetUnitTopicList, with(decode_topic_list)},
      {RequestCode::kGetHasUnitSubTopicList, with(decode_topic_list)},
      {RequestCode::kGetHasUnitSubUnunitTopicList, with(decode_topic_list)},
      {RequestCode::kGetKvlistByNamespace, with(decode_kv_table, encode_kv_table)},
      {RequestCode::kRegisterBroker, with(decode_kv_table, encode_kv_table)},
      {RequestCode::kGetBrokerRuntimeInfo, with(decode_kv_table, encode_kv_table)},
      {RequestCode::kGetConsumerListByGroup, with(decode_consumer_ids, encode_consumer_ids)},
      {RequestCode::kLockBatchMq, with(decode_lock_answer, encode_lock_answer)},
      {RequestCode::kGetAllTopicConfig,
       with(decode_topic_table, [](const TopicTable& t) { return encode(t, true); })},
      {RequestCode::kGetAllSubscriptiongroupConfig,
       with(decode_subscription_group_table,
            [](const SubscriptionGroupTable& t) { return encode(t); })},
      {RequestCode::kGetAllConsumerOffset,
       with(decode_consumer_offset_table, [](const ConsumerOffsetTable& t) { return encode(t); })},
      {RequestCode::kGetAllDelayOffset,
       with(decode_delay_offset_table, [](const DelayOffsetTable& t) { return encode(t); })},
      {RequestCode::kGetTopicStatsInfo, with(decode_topic_stats)},
      {RequestCode::kGetConsumeStats, with(decode_consume_stats)},
      {RequestCode::kGetConsumerConnectionList, with(decode_consumer_connection)},
      {RequestCode::kGetProducerConnectionList, with(decode_producer_connection)},
      {RequestCode::kGetAllProducerInfo, with(decode_producer_table, encode_producer_table)},
      {RequestCode::kQueryTopicConsumeByWho, with(decode_group_list)},
      {RequestCode::kQueryConsumeTimeSpan, with(decode_time_spans, encode_time_spans)},
      {RequestCode::kViewBrokerStatsData, with(decode_broker_stats_data)},
      {RequestCode::kGetConsumerRunningInfo, with(decode_consumer_running_info)},
      {RequestCode::kConsumeMessageDirectly, with(decode_consume_directly_result)},
      {RequestCode::kInvokeBrokerToResetOffset,
       with(decode_reset_offset, [](const auto& t) { return encode_reset_offset(t, false); })},
      {RequestCode::kInvokeBrokerToGetConsumerStatus, with(decode_consumer_status)},
      {RequestCode::kGetConsumerStatusFromClient, with(decode_consumer_status)},
      {RequestCode::kQueryCorrectionOffset,
       with(decode_correction_offsets, encode_correction_offsets)},
      {RequestCode::kQueryDataVersion, with(decode_data_version)},
      {RequestCode::kGetTopicConfig, with(decode_topic_config)},
      {RequestCode::kGetSubscriptiongroupConfig, with(decode_subscription_group)},
      {RequestCode::kGetBrokerMemberGroup,
       with(decode_broker_member_group, encode_broker_member_group)},
  };
  return table;
}

/// Bodies that carry more than our structs keep: what 5.x adds, and derived members.
bool is_superset(const Recorded& r, const CommandView& c) {
  const bool five = r.file.starts_with("java-5.3.3");
  switch (r.request) {
    case RequestCode::kQueryConsumeTimeSpan:         // …Str members are derived.
    case RequestCode::kGetConsumerStatusFromClient:  // Our table of clients is always there.
      return true;
    case RequestCode::kUpdateAndCreateSubscriptiongroup:
      return false;
    case RequestCode::kHeartBeat:
      return five || r.file.starts_with("go-") || r.file.starts_with("node-") ||
             r.file.starts_with("mqadmin");
    default:
      return five || c.version > 412;
  }
}

}  // namespace

TEST_SUITE("proto/golden") {
  TEST_CASE("every recorded frame decodes to its recorded header") {
    REQUIRE(recorded_frames().size() > 1500);
    CommandView view;
    for (const Recorded& r : recorded_frames()) {
      INFO(r.file << " " << r.line.root()["header"].dump());
      std::string frame = r.raw;
      const auto decoded = decode_command(test::writable(frame), view);
      REQUIRE(decoded.has_value());
      CHECK(view.kind == r.kind);
      check_header(view, r.line.root()["header"]);
    }
  }

  TEST_CASE("what Java wrote is written again byte for byte") {
    CommandView view;
    std::size_t compared = 0;
    for (const Recorded& r : recorded_frames()) {
      std::string frame = r.raw;
      REQUIRE(decode_command(test::writable(frame), view).has_value());
      Command c = Command::from(view);
      const JsonNode header = r.line.root()["header"];
      c.has_fields = header["extFields"].present();
      std::string again;
      c.encode(again);
      INFO(r.file << " " << header.dump());
      // One 5.3.3 answer has an empty remark; ours leaves it out.
      const bool empty_remark = header["remark"].is_string() && c.remark.empty();
      if (r.kind == HeaderKind::kRocketMq ||
          (header["serializeTypeCurrentRPC"].present() && !empty_remark)) {
        CHECK(test::hex(again) == test::hex(r.raw));
        ++compared;
        continue;
      }
      // Other clients order their keys differently; the meaning is the same.
      CommandView second;
      REQUIRE(decode_command(test::writable(again), second).has_value());
      check_header(second, header);
      CHECK(as_text(second.body) == c.body);
    }
    CHECK(compared > 1000);
  }

  TEST_CASE("every recorded body that we have a struct for decodes and keeps its content") {
    CommandView view;
    std::map<std::pair<std::int32_t, bool>, int> seen;
    for (const Recorded& r : recorded_frames()) {
      std::string frame = r.raw;
      REQUIRE(decode_command(test::writable(frame), view).has_value());
      const bool response = view.is_response();
      if (view.body.empty() || (response && view.code != 0)) {
        continue;
      }
      const auto& table = response ? answer_bodies() : request_bodies();
      const auto codec = table.find(r.request);
      if (codec == table.end()) {
        continue;
      }
      ++seen[{r.request, response}];
      INFO(r.file << " request " << r.request << " " << as_text(view.body));
      const std::string result = codec->second(view);
      REQUIRE_FALSE(result.starts_with("error"));
      if (result != "records" && !is_superset(r, view)) {
        CHECK(result == canonical_text(as_text(view.body)));
      }
    }
    // The recordings reach most of the table.
    CHECK(seen.size() >= 38);
  }

  TEST_CASE("configuration files of both versions keep every line") {
    const auto sorted_lines = [](const std::string& text) {
      std::vector<std::string> lines;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) {
        if (!line.empty() && line.back() == ',') {
          line.pop_back();
        }
        lines.push_back(line);
      }
      std::sort(lines.begin(), lines.end());
      return lines;
    };
    const std::filesystem::path root(tenon::test::data_dir() + "/config");
    for (const char* version : {"4.9.7", "5.3.3"}) {
      INFO(std::string(version));
      const std::string topics = read_file(root / version / "topics.json");
      const std::string groups = read_file(root / version / "subscriptionGroup.json");
      const std::string offsets = read_file(root / version / "consumerOffset.json");
      const std::string delays = read_file(root / version / "delayOffset.json");
      const std::string topics2 = encode(decode_topic_table(topics).value(), true);
      const std::string groups2 = encode(decode_subscription_group_table(groups).value(), true);
      const std::string offsets2 = encode(decode_consumer_offset_table(offsets).value(), true);
      const std::string delays2 = encode(decode_delay_offset_table(delays).value(), true);
      if (std::string_view(version) == "4.9.7") {
        CHECK(sorted_lines(topics2) == sorted_lines(topics));
        CHECK(sorted_lines(groups2) == sorted_lines(groups));
        CHECK(sorted_lines(offsets2) == sorted_lines(offsets));
        CHECK(delays2 == delays);
      }
      const auto version_text = [](const std::string& text) {
        // A stateVersion of 0 is Java's default and not written.
        std::string out = canonical_text(text);
        for (std::size_t at = 0; (at = out.find("stateVersion:0,", at)) != std::string::npos;) {
          out.erase(at, 15);
        }
        return out;
      };
      CHECK(version_text(topics2) == version_text(topics));
      CHECK(version_text(groups2) == version_text(groups));
      CHECK(version_text(offsets2) == version_text(offsets));
      CHECK(version_text(delays2) == version_text(delays));
    }
  }
}
