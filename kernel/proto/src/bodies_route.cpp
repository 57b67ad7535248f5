// Bodies between name server, brokers and clients: registration, routes, lists, key-value tables.
#include "body_codec.h"

#include "tenon/base/endian.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>

namespace tenon::proto {

using detail::BodyReader;
using detail::fastjson_style;
using detail::parse_object;
using detail::write_texts;

namespace {

/// Senders below this version put the bare topic table into a registration (V3_0_11).
constexpr std::int32_t kRegisterBodyVersion = 37;

void write_broker(JsonWriter& w, const BrokerData& b) {
  w.begin_object().key("brokerAddrs").begin_object();
  for (const auto& [id, addr] : b.addrs) {
    w.key(id).value(addr);
  }
  w.end_object();
  w.member("brokerName", b.broker_name).member("cluster", b.cluster).end_object();
}

BrokerData read_broker(BodyReader& in, JsonNode node) {
  BrokerData b;
  if (!node.is_object()) {
    in.fail("broker", "is no object");
    return b;
  }
  in.get(node, "cluster", b.cluster);
  in.get(node, "brokerName", b.broker_name);
  const JsonNode addrs = in.object(node, "brokerAddrs");
  for (std::size_t i = 0; i < addrs.size(); ++i) {
    const auto [key, addr] = addrs.member(i);
    std::int64_t id = 0;
    if (in.int_key(key, "brokerAddrs", id)) {
      b.addrs.insert_or_assign(id, addr.text().value_or(std::string()));
    }
  }
  return b;
}

QueueData read_queue_data(BodyReader& in, JsonNode node) {
  QueueData q;
  if (!node.is_object()) {
    in.fail("queueDatas", "has an entry that is no object");
    return q;
  }
  in.get(node, "brokerName", q.broker_name);
  in.get(node, "readQueueNums", q.read_queue_count);
  in.get(node, "writeQueueNums", q.write_queue_count);
  in.get(node, "perm", q.perm);
  in.get(node, "topicSynFlag", q.sys_flag);  // Trap: the spelling of 4.5 (spec remoting §8.4).
  in.get(node, "topicSysFlag", q.sys_flag);
  return q;
}

void append_block(std::string& out, std::string_view text) {
  char length[4];
  store_be(length, static_cast<std::uint32_t>(text.size()));
  out.append(length, sizeof length).append(text);
}

/// Takes length-prefixed blocks off the inflated registration.
class BlockReader {
 public:
  explicit BlockReader(std::string_view rest) noexcept
      : rest_(rest) {}
  bool count(std::int32_t& out) noexcept {
    if (rest_.size() < 4) {
      return false;
    }
    out = load_be<std::int32_t>(rest_.data());
    rest_.remove_prefix(4);
    return out >= 0;
  }
  bool block(std::string_view& out) noexcept {
    std::int32_t n = 0;
    if (!count(n) || static_cast<std::size_t>(n) > rest_.size()) {
      return false;
    }
    out = rest_.substr(0, static_cast<std::size_t>(n));
    rest_.remove_prefix(static_cast<std::size_t>(n));
    return true;
  }

 private:
  std::string_view rest_;
};

Error invalid_registration(std::string_view what) {
  return Error{Errc::kInvalid, fmt::format("compressed registration: {}", what)};
}

/// "topic readQ writeQ perm filterType", from 5.x on with a space and the attributes behind.
bool parse_topic_line(std::string_view line, TopicConfig& out) {
  const auto word = [&line] {
    const std::size_t stop = std::min(line.find(' '), line.size());
    const std::string_view w = line.substr(0, stop);
    line.remove_prefix(std::min(stop + 1, line.size()));
    return w;
  };
  out.name = word();
  const auto read_count = parse_int(word());
  const auto write_count = parse_int(word());
  const auto perm = parse_int(word());
  out.filter_type = word();
  if (out.name.empty() || !read_count || !write_count || !perm || out.filter_type.empty()) {
    return false;
  }
  out.read_queue_count = *read_count;
  out.write_queue_count = *write_count;
  out.perm = *perm;
  if (!line.empty()) {
    out.extra.emplace("attributes", line);
  }
  return true;
}

Result<RegisterBrokerBody> decode_blocks(std::string_view inflated) {
  BlockReader in(inflated);
  RegisterBrokerBody b;
  std::string_view text;
  if (!in.block(text)) {
    return invalid_registration("data version cut off");
  }
  TENON_TRY(b.topics.version, decode_data_version(text));
  std::int32_t count = 0;
  if (!in.count(count)) {
    return invalid_registration("topic count missing");
  }
  for (std::int32_t i = 0; i < count; ++i) {
    TopicConfig c;
    if (!in.block(text)) {
      return invalid_registration("topics cut off");
    }
    if (!parse_topic_line(text, c)) {
      return invalid_registration("malformed topic line");
    }
    std::string name = c.name;
    b.topics.topics.insert_or_assign(std::move(name), std::move(c));
  }
  if (!in.block(text)) {
    return invalid_registration("filter servers cut off");
  }
  // What 5.x brokers add behind is about static topics and not read.
  TENON_TRY(const JsonDocument servers, JsonDocument::parse(text));
  for (std::size_t i = 0; i < servers.root().size(); ++i) {
    if (auto server = servers.root().at(i).text()) {
      b.filter_servers.push_back(std::move(*server));
    }
  }
  return b;
}

}  // namespace

std::string encode(const RegisterBrokerBody& b) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  write_texts(w, "filterServerList", b.filter_servers);
  detail::write(w.key("topicConfigSerializeWrapper"), b.topics);
  w.end_object();
  return out;
}

Result<std::string> encode_compressed(const RegisterBrokerBody& b) {
  std::string plain;
  append_block(plain, encode(b.topics.version));
  char count[4];
  store_be(count, static_cast<std::uint32_t>(b.topics.topics.size()));
  plain.append(count, sizeof count);
  for (const auto& [name, c] : b.topics.topics) {
    append_block(plain,
                 fmt::format("{} {} {} {} {}",
                             name,
                             c.read_queue_count,
                             c.write_queue_count,
                             c.perm,
                             c.filter_type));
  }
  std::string servers;
  JsonWriter w(servers);
  w.begin_array();
  for (const std::string& server : b.filter_servers) {
    w.value(server);
  }
  w.end_array();
  append_block(plain, servers);
  return compress(as_bytes(plain), Compression::kZlib);
}

Result<RegisterBrokerBody> decode_register_broker_body(std::string_view body,
                                                       bool compressed,
                                                       std::int32_t sender_version) {
  if (body.empty()) {
    return RegisterBrokerBody{};
  }
  if (compressed) {
    TENON_TRY(const std::string inflated, decompress(as_bytes(body), sys_flag::kCompressed));
    return decode_blocks(inflated);
  }
  RegisterBrokerBody b;
  if (sender_version < kRegisterBodyVersion) {
    TENON_TRY(b.topics, decode_topic_table(body));
    return b;
  }
  TENON_TRY(const JsonDocument document, parse_object(body, "registration"));
  BodyReader in("registration");
  b.topics = in.topic_table(in.object(document.root(), "topicConfigSerializeWrapper"));
  in.get_texts(document.root(), "filterServerList", b.filter_servers);
  if (in.failed()) {
    return in.error();
  }
  return b;
}

std::string encode(const TopicRoute& r, bool standard_json) {
  std::string out;
  JsonStyle style = fastjson_style();
  style.quote_integer_keys = standard_json;
  style.ascii = standard_json;
  JsonWriter w(out, style);
  w.begin_object().key("brokerDatas").begin_array();
  for (const BrokerData& b : r.brokers) {
    write_broker(w, b);
  }
  w.end_array();
  w.key("filterServerTable").begin_object().end_object();
  if (r.order_topic_conf) {
    w.member("orderTopicConf", *r.order_topic_conf);
  }
  w.key("queueDatas").begin_array();
  for (const QueueData& q : r.queues) {
    w.begin_object().member("brokerName", q.broker_name).member("perm", q.perm);
    w.member("readQueueNums", q.read_queue_count).member("topicSysFlag", q.sys_flag);
    w.member("writeQueueNums", q.write_queue_count).end_object();
  }
  w.end_array().end_object();
  return out;
}

Result<TopicRoute> decode_topic_route(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "route"));
  BodyReader in("route");
  const JsonNode root = document.root();
  TopicRoute r;
  in.get(root, "orderTopicConf", r.order_topic_conf);
  const JsonNode queues = in.array(root, "queueDatas");
  for (std::size_t i = 0; i < queues.size(); ++i) {
    r.queues.push_back(read_queue_data(in, queues.at(i)));
  }
  const JsonNode brokers = in.array(root, "brokerDatas");
  for (std::size_t i = 0; i < brokers.size(); ++i) {
    r.brokers.push_back(read_broker(in, brokers.at(i)));
  }
  if (in.failed()) {
    return in.error();
  }
  return r;
}

std::string encode(const ClusterInfo& c) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object().key("brokerAddrTable").begin_object();
  for (const auto& [name, broker] : c.brokers) {
    write_broker(w.key(name), broker);
  }
  w.end_object().key("clusterAddrTable").begin_object();
  for (const auto& [cluster, names] : c.clusters) {
    w.key(cluster).begin_array();
    for (const std::string& name : names) {
      w.value(name);
    }
    w.end_array();
  }
  w.end_object().end_object();
  return out;
}

Result<ClusterInfo> decode_cluster_info(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "cluster info"));
  BodyReader in("cluster info");
  ClusterInfo c;
  const JsonNode brokers = in.object(document.root(), "brokerAddrTable");
  for (std::size_t i = 0; i < brokers.size(); ++i) {
    const auto [name, node] = brokers.member(i);
    c.brokers.insert_or_assign(std::string(name), read_broker(in, node));
  }
  const JsonNode clusters = in.object(document.root(), "clusterAddrTable");
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    const std::string_view name = clusters.member(i).first;
    std::vector<std::string> names;
    in.get_texts(clusters, name, names);
    c.clusters.insert_or_assign(std::string(name),
                                std::set<std::string>(names.begin(), names.end()));
  }
  if (in.failed()) {
    return in.error();
  }
  return c;
}

std::string encode(const TopicList& t) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  w.begin_object();
  if (t.broker_addr) {
    w.member("brokerAddr", *t.broker_addr);
  }
  write_texts(w, "topicList", t.topics);
  w.end_object();
  return out;
}

Result<TopicList> decode_topic_list(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "topic list"));
  BodyReader in("topic list");
  TopicList t;
  in.get(document.root(), "brokerAddr", t.broker_addr);
  in.get_texts(document.root(), "topicList", t.topics);
  if (in.failed()) {
    return in.error();
  }
  return t;
}

namespace {

void write_kv(JsonWriter& w, const KvTable& t) {
  w.begin_object();
  for (const auto& [key, value] : t) {
    w.member(key, value);
  }
  w.end_object();
}

KvTable read_kv(JsonNode table) {
  KvTable t;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const auto [key, node] = table.member(i);
    if (auto text = node.text()) {
      t.insert_or_assign(std::string(key), std::move(*text));
    }
  }
  return t;
}

}  // namespace

std::string encode_kv_table(const KvTable& t) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  write_kv(w.begin_object().key("table"), t);
  w.end_object();
  return out;
}

Result<KvTable> decode_kv_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "table"));
  BodyReader in("table");
  KvTable t = read_kv(in.object(document.root(), "table"));
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode_kv_config_table(const KvConfigTable& t, bool pretty) {
  std::string out;
  JsonWriter w(out, fastjson_style(pretty));
  w.begin_object().key("configTable").begin_object();
  for (const auto& [name, table] : t) {
    write_kv(w.key(name), table);
  }
  w.end_object().end_object();
  return out;
}

Result<KvConfigTable> decode_kv_config_table(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "kv config"));
  BodyReader in("kv config");
  KvConfigTable t;
  const JsonNode table = in.object(document.root(), "configTable");
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::string_view name = table.member(i).first;
    t.insert_or_assign(std::string(name), read_kv(in.object(table, name)));
  }
  if (in.failed()) {
    return in.error();
  }
  return t;
}

std::string encode_broker_member_group(const BrokerData& group) {
  std::string out;
  JsonWriter w(out, fastjson_style());
  write_broker(w.begin_object().key("brokerMemberGroup"), group);
  w.end_object();
  return out;
}

Result<BrokerData> decode_broker_member_group(std::string_view json) {
  TENON_TRY(const JsonDocument document, parse_object(json, "member group"));
  BodyReader in("member group");
  BrokerData group = read_broker(in, document.root()["brokerMemberGroup"]);
  if (in.failed()) {
    return in.error();
  }
  return group;
}

}  // namespace tenon::proto
