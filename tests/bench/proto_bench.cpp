// Nanoseconds per operation of the codecs. Prints one line per operation: the best of many short
// rounds, so that a busy machine disturbs less. Usage: proto_bench [rounds]
#include "tenon/base/endian.h"
#include "tenon/proto/bodies.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace tenon;
using namespace tenon::proto;

namespace {

int rounds = 200;

/// Keeps a result alive for the optimiser.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

template <class F>
void measure(std::string_view name, F&& once) {
  constexpr int kCalls = 1000;
  double best = 1e300;
  for (int r = 0; r < rounds; ++r) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      once();
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count() / kCalls);
  }
  fmt::print("{:<44} {:>9.1f} ns\n", name, best);
}

std::span<std::byte> writable(std::string& text) {
  return {reinterpret_cast<std::byte*>(text.data()), text.size()};
}

std::string send_frame(HeaderKind kind, std::size_t body_bytes) {
  Command c;
  c.code = RequestCode::kSendMessageV2;
  c.opaque = 123456;
  c.kind = kind;
  c.set("a", "please_rename_unique_group_name").set("b", "TopicTest").set("c", "TBW102");
  c.set("d", "4").set("e", "3").set("f", "0").set("g", "1700000000000").set("h", "0");
  c.set("i",
        "UNIQ_KEY\x01"
        "C0A801051E5818B4AAC2117A8B5E0000\x02WAIT\x01true\x02TAGS\x01TagA");
  c.set("j", "0").set("k", "false").set("l", "16").set("m", "false").set("n", "broker-a");
  c.body = std::string(body_bytes, 'x');
  std::string out;
  c.encode(out);
  return out;
}

void bench_commands() {
  for (const HeaderKind kind : {HeaderKind::kJson, HeaderKind::kRocketMq}) {
    const std::string_view label = kind == HeaderKind::kJson ? "JSON" : "binary";
    const std::string original = send_frame(kind, 0);
    std::string frame = original;
    CommandView view;
    measure(fmt::format("copy of the {} frame, {} bytes", label, frame.size()), [&] {
      frame.assign(original);
      keep(frame.data());
    });
    measure(fmt::format("decode 310 with 14 fields, {} (and copy)", label), [&] {
      frame.assign(original);
      const auto r = decode_command(writable(frame), view);
      keep(r.has_value());
    });
    measure(fmt::format("read 8 of its fields, {}", label), [&] {
      keep(view.field("b"));
      keep(view.field_int("e"));
      keep(view.field_int("f"));
      keep(view.field_long("g"));
      keep(view.field_int("h"));
      keep(view.field("i"));
      keep(view.field_int("j"));
      keep(view.field_bool("m"));
    });
    std::string out;
    measure(fmt::format("encode a send answer, {}", label), [&] {
      out.clear();
      FrameWriter::Head head;
      head.flag = kFlagResponse;
      head.kind = kind;
      head.opaque = 123456;
      FrameWriter w(out, head);
      w.field("MSG_REGION", "DefaultRegion");
      w.field("TRACE_ON", "true");
      w.field("msgId", "0A01020300002A9F0000011F71FB04CB");
      w.field("queueId", 3);
      w.field("queueOffset", std::int64_t{1234567});
      w.finish();
      keep(out.data());
    });
    Command send = [&] {
      std::string copy = original;
      CommandView v;
      static_cast<void>(decode_command(writable(copy), v));
      return Command::from(v);
    }();
    measure(fmt::format("encode 310 with 14 fields, {}", label), [&] {
      out.clear();
      send.encode(out);
      keep(out.data());
    });
  }
}

void bench_messages() {
  const std::string properties =
      "UNIQ_KEY\x01"
      "C0A801051E5818B4AAC2117A8B5E0000\x02"
      "CLUSTER\x01"
      "DefaultCluster\x02TAGS\x01TagA";
  for (const std::size_t body_bytes : {128u, 1024u, 65536u}) {
    const std::string body(body_bytes, 'x');
    MessageRecord m;
    m.topic = "TopicTest";
    m.body = as_bytes(body);
    m.properties = properties;
    std::string record(encoded_message_bytes(m), '\0');
    measure(fmt::format("encode a record of {} bytes with CRC", body_bytes),
            [&] { keep(encode_message(m, reinterpret_cast<std::byte*>(record.data()))); });
    measure(fmt::format("decode a record of {} bytes", body_bytes), [&] {
      const auto r = decode_message(as_bytes(record));
      keep(r.value().queue_offset);
    });
  }
  measure("tags code of three properties", [&] { keep(tags_code_of(properties)); });
  measure("property list decode", [&] { keep(decode_properties(properties).size()); });
  const std::string key = "TopicTest#C0A801051E5818B4AAC2117A8B5E0000";
  measure("hash of 42 ASCII characters", [&] { keep(java_hash(key)); });
}

void bench_bodies() {
  HeartbeatData h;
  h.client_id = "192.168.1.5@12345#678901234567890";
  h.producer_groups = {"CLIENT_INNER_PRODUCER", "group"};
  ConsumerData c;
  c.group = "group";
  c.subscriptions.push_back(build_subscription("TopicTest", "TagA || TagB", "TAG").value());
  c.subscriptions.push_back(build_subscription("%RETRY%group", "*", "TAG").value());
  h.consumers.push_back(c);
  const std::string heartbeat = encode(h);
  measure("decode a heartbeat", [&] { keep(decode_heartbeat(heartbeat).has_value()); });
  measure("encode a heartbeat", [&] { keep(encode(h).size()); });
  TopicRoute r;
  QueueData q;
  q.broker_name = "broker-a";
  BrokerData b;
  b.broker_name = "broker-a";
  b.cluster = "DefaultCluster";
  b.addrs = {{0, "127.0.0.1:10911"}};
  r.queues = {q, q};
  r.brokers = {b};
  const std::string old_route = encode(r, false);
  const std::string new_route = encode(r, true);
  measure("decode a route, standard JSON",
          [&] { keep(decode_topic_route(new_route).has_value()); });
  measure("decode a route, unquoted keys",
          [&] { keep(decode_topic_route(old_route).has_value()); });
  measure("encode a route", [&] { keep(encode(r, true).size()); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    rounds = std::max(1, std::atoi(argv[1]));
  }
  bench_commands();
  bench_messages();
  bench_bodies();
  return 0;
}
