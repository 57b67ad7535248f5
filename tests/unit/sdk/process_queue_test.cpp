#include "process_queue.h"

#include "counting_new.h"
#include "message_block.h"

#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tenon::sdk;
namespace proto = tenon::proto;

namespace {

std::string encoded(const std::vector<std::int64_t>& offsets, std::size_t body_bytes = 1) {
  std::string bytes;
  const std::string body(body_bytes, 'b');
  for (const std::int64_t offset : offsets) {
    proto::MessageRecord r;
    r.topic = "T";
    r.queue_offset = offset;
    r.body = tenon::as_bytes(body);
    std::string one(proto::encoded_message_bytes(r), '\0');
    proto::encode_message(r, reinterpret_cast<std::byte*>(one.data()));
    bytes += one;
  }
  return bytes;
}

std::vector<MessageView> messages(const std::vector<std::int64_t>& offsets,
                                  std::size_t body_bytes = 1) {
  auto bytes = std::make_shared<std::string>(encoded(offsets, body_bytes));
  return detail::decode_messages(tenon::as_bytes(*bytes), bytes, "broker");
}

std::vector<std::int64_t> run(std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = from; i <= to; ++i) {
    out.push_back(i);
  }
  return out;
}

}  // namespace

TEST_SUITE("sdk/process_queue") {
  TEST_CASE(
      "commit rule: the smallest unfinished offset, then one past the last") {  // client §11 L2, §14.33
    ProcessQueue q;
    q.put(messages({5, 6, 7, 8}));
    CHECK(q.remove(messages({5, 7, 8})) == 6);
    CHECK(q.count() == 1);
    CHECK(q.remove(messages({6})) == 9);
    CHECK(q.count() == 0);
    CHECK(q.remove(messages({6})) == -1);  // nothing was cached
  }

  TEST_CASE("a queue that is filled and emptied in turn stays in order and keeps little") {
    FrontQueue<std::string> q;
    int in = 0;
    int out = 0;
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 7 + round % 60; ++i) {
        q.push_back(std::to_string(in++));
      }
      for (int i = 0; i < 5 + round % 61 && !q.empty(); ++i) {
        REQUIRE(q.front() == std::to_string(out++));
        q.pop_front();
      }
      REQUIRE(q.size() == static_cast<std::size_t>(in - out));
      REQUIRE((q.empty() || q.back() == std::to_string(in - 1)));
      q.insert(q.size() / 2, "between");
      REQUIRE(*(q.begin() + static_cast<std::ptrdiff_t>((q.size() - 1) / 2)) == "between");
      FrontQueue<std::string> without;
      for (std::string& s : q) {
        if (s != "between") {
          without.push_back(std::move(s));
        }
      }
      q.swap(without);
    }
  }

  TEST_CASE("a pull of many messages allocates no more often than one of a few") {
    ProcessQueue q;
    std::int64_t next = 0;
    // Encoded before: only what a consumer does is counted.
    const auto pull = [&](std::int64_t n) {
      auto bytes = std::make_shared<std::string>(encoded(run(next, next + n - 1)));
      next += n;
      const std::uint64_t before = tenon::test::allocations_of_thread();
      {
        const auto got = detail::decode_messages(tenon::as_bytes(*bytes), bytes, "broker");
        q.put(got);
        q.mark_started(got, 1);
        for (const MessageView& m : got) {
          q.remove({&m, 1});
        }
      }
      return tenon::test::allocations_of_thread() - before;
    };
    pull(32);
    const std::uint64_t few = pull(8);
    CHECK(pull(32) == few);
    CHECK(pull(8) == few);
    CHECK(pull(30) == few);
    CHECK(q.count() == 0);
  }

  TEST_CASE("finishing twice and unknown offsets change nothing") {
    ProcessQueue q;
    q.put(messages({1, 2, 3}));
    CHECK(q.remove(messages({3})) == 1);
    CHECK(q.remove(messages({3, 99})) == 1);
    CHECK(q.count() == 2);
    CHECK(q.bytes() == 2);
  }

  TEST_CASE("messages that are there already are not counted again, gaps are legal") {
    ProcessQueue q;
    q.put(messages({10, 20, 30}));
    q.put(messages({20, 25, 30, 40}));
    CHECK(q.count() == 5);
    CHECK(q.span() == 30);
    CHECK(q.min_offset() == 10);
    CHECK(q.max_offset() == 40);
    CHECK(q.contains(25));
    CHECK(q.remove(messages({10, 20})) == 25);
    CHECK_FALSE(q.contains(20));
  }

  TEST_CASE("clear forgets everything") {
    ProcessQueue q;
    q.put(messages({1, 2}));
    q.clear();
    CHECK(q.count() == 0);
    CHECK(q.bytes() == 0);
    CHECK(q.span() == 0);
    CHECK_FALSE(q.head().has_value());
  }

  TEST_CASE("the head knows since when a listener has it") {
    ProcessQueue q;
    q.put(messages({4, 5}));
    CHECK(q.head()->started_ms == 0);
    q.mark_started(messages({4}), 123);
    CHECK(q.head()->started_ms == 123);
    CHECK(q.head()->message.queue_offset() == 4);
    q.remove(messages({4}));
    CHECK(q.head()->started_ms == 0);
  }

  TEST_CASE("flow control pauses at 1001 messages, 101 MiB and a span of 2001") {
    const FlowLimits limits;  // client §14.36
    ProcessQueue by_count;
    by_count.put(messages(run(1, 1000)));
    CHECK(check_flow(by_count, limits) == FlowControl::kGo);
    by_count.put(messages({1001}));
    CHECK(check_flow(by_count, limits) == FlowControl::kTooMany);

    ProcessQueue by_bytes;
    for (std::int64_t i = 0; i < 100; ++i) {
      by_bytes.put(messages({i}, 1024 * 1024));
    }
    CHECK(check_flow(by_bytes, limits) == FlowControl::kGo);  // exactly 100 MiB
    by_bytes.put(messages({100}, 1024 * 1024));
    CHECK(check_flow(by_bytes, limits) == FlowControl::kTooLarge);

    ProcessQueue by_span;
    by_span.put(messages({0, 2000}));
    CHECK(check_flow(by_span, limits) == FlowControl::kGo);
    by_span.put(messages({2001}));
    CHECK(check_flow(by_span, limits) == FlowControl::kTooWide);
  }
}

TEST_SUITE("sdk/message_view") {
  TEST_CASE("views keep their block alive and show the record") {
    std::vector<MessageView> all = messages({7, 8});
    REQUIRE(all.size() == 2);
    const MessageView kept = all[1];
    all.clear();
    CHECK(kept.queue_offset() == 8);
    CHECK(kept.body() == "b");
    CHECK(kept.broker() == "broker");
    CHECK(kept.topic() == "T");
    CHECK(kept.id() == kept.offset_id());  // no UNIQ_KEY
    CHECK(kept.tag().empty());
    CHECK_FALSE(kept.damaged());
    MessageView copy = kept;
    const MessageView moved = std::move(copy);
    CHECK(moved.queue_offset() == 8);
    CHECK_FALSE(static_cast<bool>(MessageView()));
  }

  TEST_CASE(
      "a retried message shows the topic it was sent to, and its compressed body is inflated") {
    auto bytes = std::make_shared<std::string>();
    const auto packed = proto::compress(
        tenon::as_bytes(std::string_view("hello hello hello hello")), proto::Compression::kZlib);
    REQUIRE(packed.has_value());
    proto::MessageRecord r;
    r.topic = "%RETRY%g";
    r.queue_id = 0;
    r.sys_flag = 0x301;
    r.body = tenon::as_bytes(packed.value());
    r.properties = "RETRY_TOPIC\x01orders\x02UNIQ_KEY\x01the-id";
    bytes->resize(proto::encoded_message_bytes(r));
    proto::encode_message(r, reinterpret_cast<std::byte*>(bytes->data()));
    const auto all = detail::decode_messages(tenon::as_bytes(*bytes), bytes, "b");
    REQUIRE(all.size() == 1);
    CHECK(all[0].topic() == "orders");
    CHECK(all[0].queue().topic == "%RETRY%g");
    CHECK(all[0].id() == "the-id");
    CHECK(all[0].body() == "hello hello hello hello");
    CHECK(all[0].raw_body() == packed.value());
  }

  TEST_CASE("a body that cannot be inflated is reported, not delivered as garbage") {
    auto bytes = std::make_shared<std::string>();
    proto::MessageRecord r;
    r.topic = "T";
    r.sys_flag = 0x301;
    r.body = tenon::as_bytes(std::string_view("not zlib"));
    bytes->resize(proto::encoded_message_bytes(r));
    proto::encode_message(r, reinterpret_cast<std::byte*>(bytes->data()));
    const auto all = detail::decode_messages(tenon::as_bytes(*bytes), bytes, "b");
    REQUIRE(all.size() == 1);
    CHECK(all[0].damaged());
    CHECK(all[0].body().empty());
  }

  TEST_CASE("records behind a damaged one are left out") {
    auto good = messages({1});
    std::string text;
    proto::MessageRecord r;
    r.topic = "T";
    r.body = tenon::as_bytes(std::string_view("x"));
    text.resize(proto::encoded_message_bytes(r));
    proto::encode_message(r, reinterpret_cast<std::byte*>(text.data()));
    auto bytes = std::make_shared<std::string>(text + text + text);
    (*bytes)[text.size() + 84] = '\x7f';  // body length of the second one
    CHECK(detail::decode_messages(tenon::as_bytes(*bytes), bytes, "b").size() == 1);
    CHECK(detail::decode_messages({}, nullptr, "b").empty());
  }
}
