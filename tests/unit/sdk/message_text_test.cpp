#include "message_text.h"

#include "send_header.h"

#include "tenon/base/endian.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon::sdk;
namespace proto = tenon::proto;

namespace {

proto::Command decoded(std::string frame) {
  proto::CommandView view;
  const auto r =
      proto::decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, view);
  REQUIRE(r.has_value());
  return proto::Command::from(view);
}

}  // namespace

TEST_SUITE("sdk/message_text") {
  TEST_CASE("properties: names and values in wire form, no separator at the end") {
    Message m;
    m.tag = "TagA";
    m.keys = {"k1", "k2"};
    m.delay_level = 3;
    m.properties = {{"user", "Zoë"}};
    std::string text;
    put_properties(text, m, "ID");
    CHECK(text ==
          "WAIT\x01true\x02TAGS\x01TagA\x02KEYS\x01k1 k2\x02"
          "DELAY\x01"
          "3\x02UNIQ_KEY\x01ID\x02user\x01Zoë");
  }

  TEST_CASE("empty tags and keys are not written, WAIT always is") {
    Message m;
    m.wait_store_ok = false;
    std::string text;
    put_properties(text, m, "ID");
    CHECK(text ==
          "WAIT\x01"
          "false\x02UNIQ_KEY\x01ID");
  }

  TEST_CASE("a body of 4095 bytes is not compressed, one of 4096 is") {  // client §14.17
    ProducerOptions o;
    std::string body(4095, 'a');
    CHECK(compress_body(body, o) == 0);
    CHECK(body.size() == 4095);
    body += 'a';
    CHECK(compress_body(body, o) == 0x301);
    CHECK(static_cast<unsigned char>(body[0]) == 0x78);
    const auto back = proto::decompress(tenon::as_bytes(body), 0x301);
    REQUIRE(back.has_value());
    CHECK(back.value() == std::string(4096, 'a'));
  }

  TEST_CASE("every kind of compression sets its bits") {
    ProducerOptions o;
    for (const auto& [kind, bits] : {std::pair(Compression::kLz4, 0x101),
                                     std::pair(Compression::kZstd, 0x201),
                                     std::pair(Compression::kNone, 0)}) {
      o.compression = kind;
      std::string body(10'000, 'z');
      CHECK(compress_body(body, o) == bits);
      if (bits != 0) {
        const auto back = proto::decompress(tenon::as_bytes(body), bits);
        REQUIRE(back.has_value());
        CHECK(back.value() == std::string(10'000, 'z'));
      }
    }
  }

  TEST_CASE("both header encodings carry the same letters") {  // client §14.18
    for (const auto encoding : {HeaderEncoding::kJson, HeaderEncoding::kBinary}) {
      const SendHeaderFixed fixed(encoding, "group", "topic", "TBW102", 4, "broker-a");
      SendHeader h;
      h.queue_id = 2;
      h.sys_flag = 0x301;
      h.born_ms = 1'700'000'000'000;
      h.flag = -5;
      h.properties = "UNIQ_KEY\x01X\x02q\x01\"\\\n";
      h.reconsume_times = 1;
      h.max_reconsume_times = 16;
      std::string out = "before";
      encode_send(out, 77, fixed, h, tenon::as_bytes("body"));
      REQUIRE(out.starts_with("before"));
      const proto::Command c = decoded(out.substr(6));
      CHECK(c.code == 310);
      CHECK(c.opaque == 77);
      CHECK(c.flag == 0);
      CHECK(c.version == 409);
      CHECK(c.language == proto::Language::kCpp);
      CHECK(c.kind == (encoding == HeaderEncoding::kJson ? proto::HeaderKind::kJson
                                                         : proto::HeaderKind::kRocketMq));
      CHECK(c.body == "body");
      const std::pair<const char*, const char*> expected[] = {{"a", "group"},
                                                              {"b", "topic"},
                                                              {"c", "TBW102"},
                                                              {"d", "4"},
                                                              {"e", "2"},
                                                              {"f", "769"},
                                                              {"g", "1700000000000"},
                                                              {"h", "-5"},
                                                              {"j", "1"},
                                                              {"k", "false"},
                                                              {"l", "16"},
                                                              {"m", "false"},
                                                              {"n", "broker-a"}};
      for (const auto& [key, value] : expected) {
        CAPTURE(key);
        CHECK(c.field(key) == std::string_view(value));
      }
      CHECK(c.field("i") == h.properties);
      CHECK(c.fields.size() == 14);
    }
  }

  TEST_CASE("a batch is 320 with m=true, a one-way message has the flag") {  // client §14.18
    for (const auto encoding : {HeaderEncoding::kJson, HeaderEncoding::kBinary}) {
      const SendHeaderFixed fixed(encoding, "g", "t", "TBW102", 4, "b");
      SendHeader h;
      h.batch = true;
      h.oneway = true;
      h.properties = "WAIT\x01true";
      std::string out;
      encode_send(out, 1, fixed, h, {});
      const proto::Command c = decoded(out);
      CHECK(c.code == 320);
      CHECK(c.field("m") == "true");
      CHECK(c.flag == 2);
      CHECK_FALSE(c.field("l").has_value());
    }
  }

  TEST_CASE("Java's hash chooses the queue") {
    // spec client §4.10
    CHECK(hash_queue("order-1001", 4) == 3);
    CHECK(hash_queue("TagA", 4) == 2598919 % 4);
    CHECK(hash_queue("polygenelubricants", 3) == 2147483648 % 3);
    CHECK(hash_queue("x", 0) == -1);
  }
}
