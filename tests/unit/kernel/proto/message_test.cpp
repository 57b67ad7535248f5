#include "tenon/proto/message.h"

#include "hex.h"

#include "tenon/base/crc32.h"
#include "tenon/base/endian.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace tenon;
using namespace tenon::proto;
using tenon::test::hex;
using tenon::test::unhex;

namespace {

std::string encode(const MessageRecord& m) {
  std::string out(encoded_message_bytes(m), '\0');
  CHECK(encode_message(m, reinterpret_cast<std::byte*>(out.data())) == out.size());
  return out;
}

bool decodes(std::string_view bytes) {
  return decode_message(as_bytes(bytes)).has_value();
}

HostAddr addr(std::string_view text) {
  return parse_host_addr(text).value();
}

// spec/store.md §23, verified against a 4.9.8 store.
std::string store_example() {
  return unhex(
      "000000c7 daa320a7 69c865ed 00000003 00000000 0000000000000001 00000000000000c8 00000000"
      "0000018bcfe56800 0a010203 0000d431 0000018bcfe56805 c0a80105 00002a9f 00000000"
      "0000000000000000 0000000e 48656c6c6f20526f636b65744d51 09 546f70696354657374 0055"
      "4b455953 01 4161204242 02"
      "554e49515f4b4559 01 4330413830313035314535383138423441414332313137413842354530303030 02"
      "434c5553544552 01 44656661756c74436c7573746572 02 54414753 01 54616741");
}

}  // namespace

TEST_SUITE("proto/message") {
  TEST_CASE("the worked record of the store") {
    const std::string bytes = store_example();
    REQUIRE(bytes.size() == 199);
    const std::string log = bytes + "next record";
    const auto r = decode_message(as_bytes(log));
    REQUIRE(r.has_value());
    const MessageView& m = r.value();
    CHECK(m.total_bytes == 199);
    CHECK(m.magic == kMessageMagicV1);
    CHECK(m.body_crc == crc32_java(m.body));
    CHECK(m.queue_id == 3);
    CHECK(m.flag == 0);
    CHECK(m.queue_offset == 1);
    CHECK(m.phys_offset == 200);
    CHECK(m.sys_flag == 0);
    CHECK(m.born_ms == 1700000000000);
    CHECK(to_string(m.born_host) == "10.1.2.3:54321");
    CHECK(m.store_ms == 1700000000005);
    CHECK(to_string(m.store_host) == "192.168.1.5:10911");
    CHECK(m.reconsume_times == 0);
    CHECK(m.prepared_offset == 0);
    CHECK(as_text(m.body) == "Hello RocketMQ");
    CHECK(m.topic == "TopicTest");
    CHECK(find_property(m.properties, prop::kKeys) == "Aa BB");
    CHECK(tags_code_of(m.properties) == 0x27a807);
    CHECK(offset_message_id(m.store_host, m.phys_offset) == "C0A8010500002A9F00000000000000C8");

    MessageRecord again;
    again.topic = m.topic;
    again.queue_id = m.queue_id;
    again.queue_offset = m.queue_offset;
    again.phys_offset = m.phys_offset;
    again.born_ms = m.born_ms;
    again.born_host = m.born_host;
    again.store_ms = m.store_ms;
    again.store_host = m.store_host;
    again.body = m.body;
    again.properties = m.properties;
    CHECK(hex(encode(again)) == hex(bytes));
  }

  TEST_CASE("the worked record of the wire") {
    // spec/remoting.md §9.1.
    const std::string bytes = unhex(
        "00000090 DAA320A7 1E3888BE 00000001 00000000 0000000000000001 00000000000000A3 00000000"
        "0000018BCFE56800 7F000001 00009F10 000001A22A8E46ED 7F000001 00002A9F 00000000"
        "0000000000000000 00000006 68656C6C6F32 02 5431 002D"
        "554E49515F4B455901414243 02 434C5553544552 01 44656661756C74436C7573746572 02"
        "54414753 01 74616742");
    const auto r = decode_message(as_bytes(bytes));
    REQUIRE(r.has_value());
    CHECK(r.value().topic == "T1");
    CHECK(as_text(r.value().body) == "hello2");
    CHECK(r.value().body_crc == crc32_java(r.value().body));
    CHECK(find_property(r.value().properties, "TAGS") == "tagB");
    CHECK(crc32_java(as_bytes("hello")) == 0x3610A686);
  }

  TEST_CASE("a long topic and an IPv6 host make a V2 record") {
    // spec/store.md §23, further vectors.
    const std::string topic(130, 't');
    MessageRecord m;
    m.topic = topic;
    m.born_host = addr("[2001:db8::1]:54321");
    m.store_host = addr("10.0.0.1:10911");
    m.body = as_bytes("x");
    const std::string bytes = encode(m);
    CHECK(bytes.size() == 235);
    CHECK(hex(bytes.substr(0, 8)) == "000000EBDAA320AB");
    CHECK(hex(bytes.substr(36, 4)) == "00000010");
    CHECK(hex(bytes.substr(48, 20)) == "20010DB80000000000000000000000010000D431");
    const auto r = decode_message(as_bytes(bytes));
    REQUIRE(r.has_value());
    CHECK(r.value().topic == topic);
    CHECK(r.value().born_host == m.born_host);
    CHECK(r.value().store_host == m.store_host);
    CHECK(as_text(r.value().body) == "x");
  }

  TEST_CASE("all host families round trip with every field set") {
    for (const char* born : {"1.2.3.4:1", "[::1]:65535"}) {
      for (const char* store : {"255.255.255.255:65535", "[2001:db8::ff]:0"}) {
        MessageRecord m;
        m.topic = "T";
        m.queue_id = -1;
        m.flag = std::numeric_limits<std::int32_t>::min();
        m.queue_offset = std::numeric_limits<std::int64_t>::max();
        m.phys_offset = -2;
        m.sys_flag = 0x301 | sys_flag::kBornHostV6 | sys_flag::kStoreHostV6;
        m.born_ms = -3;
        m.born_host = addr(born);
        m.store_ms = 4;
        m.store_host = addr(store);
        m.reconsume_times = 5;
        m.prepared_offset = 6;
        m.properties = "a\x01z";
        const std::string bytes = encode(m);
        const auto r = decode_message(as_bytes(bytes));
        REQUIRE(r.has_value());
        const MessageView& v = r.value();
        CHECK(v.queue_id == m.queue_id);
        CHECK(v.flag == m.flag);
        CHECK(v.queue_offset == m.queue_offset);
        CHECK(v.phys_offset == m.phys_offset);
        CHECK((v.sys_flag & 0x30) == ((m.born_host.v6 ? 0x10 : 0) | (m.store_host.v6 ? 0x20 : 0)));
        CHECK((v.sys_flag & ~0x30) == 0x301);
        CHECK(v.born_ms == m.born_ms);
        CHECK(v.born_host == m.born_host);
        CHECK(v.store_ms == m.store_ms);
        CHECK(v.store_host == m.store_host);
        CHECK(v.reconsume_times == m.reconsume_times);
        CHECK(v.prepared_offset == m.prepared_offset);
        CHECK(v.body.empty());
        CHECK(v.body_crc == 0);
        CHECK(v.properties == m.properties);
      }
    }
  }

  TEST_CASE("every truncation of a record is refused") {
    const std::string bytes = store_example();
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      CHECK_FALSE(decodes(std::string_view(bytes).substr(0, n)));
      // The same with a total length that agrees with the bytes.
      std::string shortened = bytes.substr(0, n);
      if (n >= 4) {
        store_be(shortened.data(), static_cast<std::uint32_t>(n));
        CHECK_FALSE(decodes(shortened));
      }
    }
    CHECK(decodes(bytes));
  }

  TEST_CASE("lengths inside a record are bounded") {
    const std::string good = store_example();
    const auto with32 = [&](std::size_t at, std::uint32_t value) {
      std::string bytes = good;
      store_be(bytes.data() + at, value);
      return bytes;
    };
    for (const std::uint32_t v : {0u, 90u, 198u, 200u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      CHECK_FALSE(decodes(with32(0, v)));  // Total length.
    }
    CHECK_FALSE(decodes(with32(4, 0xDAA320A8u)));
    CHECK_FALSE(decodes(with32(4, 0xCBD43194u)));  // A blank is no message.
    for (const std::uint32_t v : {0u, 13u, 15u, 111u, 112u, 0x7fffffffu, 0xffffffffu}) {
      CHECK_FALSE(decodes(with32(84, v)));  // Body length.
    }
    for (const std::uint8_t v : std::vector<std::uint8_t>{0, 8, 10, 127, 128, 255}) {
      std::string bytes = good;
      bytes[102] = static_cast<char>(v);  // Topic length.
      CHECK_FALSE(decodes(bytes));
    }
    for (const std::uint16_t v : std::vector<std::uint16_t>{0, 84, 86, 32767, 32768, 65535}) {
      std::string bytes = good;
      store_be(bytes.data() + 112, v);  // Properties length.
      CHECK_FALSE(decodes(bytes));
    }
    // IPv6 bits without the bytes behind them shift everything.
    CHECK_FALSE(decodes(with32(36, 0x30)));
    // The smallest record: 91 bytes; with IPv6 bits it would need 115.
    MessageRecord empty;
    const std::string smallest = encode(empty);
    CHECK(smallest.size() == 91);
    CHECK(decodes(smallest));
    std::string v6 = smallest;
    store_be(v6.data() + 36, std::uint32_t{0x30});
    CHECK_FALSE(decodes(v6));
  }
}

TEST_SUITE("proto/batch") {
  TEST_CASE("the batch of the specification") {
    // spec/remoting.md §6.1.
    std::string body;
    append_batch_entry(body, 0, "x", "UNIQ_KEY\x01U1");
    append_batch_entry(body, 0, "yy", "");
    CHECK(body == unhex("00000022 00000000 00000000 00000000 00000001 78 000B "
                        "554E49515F4B4559015531"
                        "00000018 00000000 00000000 00000000 00000002 7979 0000"));
    BatchReader reader(as_bytes(body));
    BatchEntry entry;
    REQUIRE(reader.next(entry));
    CHECK(as_text(entry.body) == "x");
    CHECK(entry.properties == "UNIQ_KEY\x01U1");
    REQUIRE(reader.next(entry));
    CHECK(as_text(entry.body) == "yy");
    CHECK(entry.properties.empty());
    CHECK_FALSE(reader.next(entry));
    CHECK(reader.ok());
  }

  TEST_CASE("malformed batches end with ok() false") {
    std::string good;
    append_batch_entry(good, 7, "body", "p\x01v");
    for (std::size_t n = 1; n < good.size(); ++n) {
      BatchReader reader(as_bytes(good).first(n));
      BatchEntry entry;
      CHECK_FALSE(reader.next(entry));
      CHECK_FALSE(reader.ok());
      CHECK_FALSE(reader.next(entry));
    }
    const auto refused = [&](std::size_t at, std::uint32_t value) {
      std::string bytes = good;
      store_be(bytes.data() + at, value);
      BatchReader reader(as_bytes(bytes));
      BatchEntry entry;
      return !reader.next(entry) && !reader.ok();
    };
    for (const std::uint32_t v : {0u, 21u, 28u, 30u, 0x7fffffffu, 0xffffffffu}) {
      CHECK(refused(0, v));
    }
    for (const std::uint32_t v : {3u, 5u, 8u, 0x7fffffffu, 0xffffffffu}) {
      CHECK(refused(16, v));
    }
    BatchReader empty(std::span<const std::byte>{});
    BatchEntry entry;
    CHECK_FALSE(empty.next(entry));
    CHECK(empty.ok());
  }
}

TEST_SUITE("proto/message_id") {
  TEST_CASE("ids of the specification") {
    // spec/remoting.md §9.4.
    CHECK(offset_message_id(addr("10.1.2.3:10911"), 1234567890123) ==
          "0A01020300002A9F0000011F71FB04CB");
    CHECK(offset_message_id(addr("[2001:db8::1]:10911"), 255) ==
          "20010DB800000000000000000000000100002A9F00000000000000FF");
    const auto v4 = parse_offset_message_id("0A01020300002A9F0000011F71FB04CB");
    REQUIRE(v4.has_value());
    CHECK(to_string(v4.value().store_host) == "10.1.2.3:10911");
    CHECK(v4.value().phys_offset == 1234567890123);
    const auto v6 =
        parse_offset_message_id("20010db800000000000000000000000100002a9f00000000000000ff");
    REQUIRE(v6.has_value());
    CHECK(to_string(v6.value().store_host) == "[2001:db8::1]:10911");
    CHECK(v6.value().phys_offset == 255);
  }

  TEST_CASE("other texts are no ids") {
    CHECK_FALSE(parse_offset_message_id("").has_value());
    CHECK_FALSE(parse_offset_message_id("0A01020300002A9F0000011F71FB04C").has_value());
    CHECK_FALSE(parse_offset_message_id("0A01020300002A9F0000011F71FB04CBB").has_value());
    CHECK_FALSE(parse_offset_message_id("0A01020300002A9F0000011F71FB04CG").has_value());
    CHECK_FALSE(parse_offset_message_id("0A01020300012A9F0000011F71FB04CB").has_value());
  }

  TEST_CASE("addresses go both ways") {
    for (const char* text : {"0.0.0.0:0", "1.2.3.4:65535", "[::]:1", "[2001:db8::1]:10911"}) {
      CHECK(to_string(addr(text)) == text);
    }
    for (const char* text : {"",
                             ":",
                             "1.2.3.4",
                             "1.2.3.4:",
                             "1.2.3.4:65536",
                             "1.2.3.4:-1",
                             "1.2.3:80",
                             "host:80",
                             "::1:80",
                             "[::1]",
                             "[::1:80",
                             "1.2.3.4:8x"}) {
      INFO(std::string(text));
      CHECK_FALSE(parse_host_addr(text).has_value());
    }
  }
}

TEST_SUITE("proto/topic") {
  TEST_CASE("names on both sides of the rules") {
    CHECK(check_topic_name("a").has_value());
    CHECK(check_topic_name("%RETRY%g-1_x|Y").has_value());
    CHECK(check_topic_name(std::string(127, 'a')).has_value());
    CHECK(check_topic_name(std::string(128, 'a')).error().detail ==
          "The specified topic is longer than topic max length.");
    CHECK(check_topic_name("").error().detail == "The specified topic is blank.");
    CHECK(check_topic_name(" \t").error().detail == "The specified topic is blank.");
    for (const char* name : {"a b", "a.b", "a/b", "\u8BA2", "a\n", "a$"}) {
      CHECK(check_topic_name(name).error().detail ==
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$");
    }
  }
}

TEST_SUITE("proto/compression") {
  TEST_CASE("each kind inflates what it deflated, up to the limit") {
    std::string body;
    for (unsigned i = 0; i < 50'000; ++i) {
      body += static_cast<char>(i * i % 251);
    }
    const std::vector<std::pair<Compression, std::int32_t>> kinds{{Compression::kZlib, 0x301},
                                                                  {Compression::kZlib, 0x1},
                                                                  {Compression::kLz4, 0x101},
                                                                  {Compression::kZstd, 0x201}};
    for (const auto& [how, flag] : kinds) {
      CAPTURE(flag);
      for (const std::string& text : {body, std::string(), std::string("x")}) {
        const auto packed = compress(as_bytes(text), how);
        REQUIRE(packed.has_value());
        CHECK(decompress(as_bytes(packed.value()), flag).value() == text);
        CHECK(decompress(as_bytes(packed.value()), flag, text.size()).value() == text);
        if (!text.empty()) {
          CHECK(decompress(as_bytes(packed.value()), flag, text.size() - 1).error().code ==
                Errc::kLimit);
          for (std::size_t n = 0; n < packed.value().size(); n += 1 + packed.value().size() / 50) {
            CHECK_FALSE(decompress(as_bytes(packed.value()).first(n), flag).has_value());
          }
        }
      }
      CHECK_FALSE(decompress(as_bytes("this is no compressed data"), flag).has_value());
    }
  }

  TEST_CASE("a small body that announces gigabytes stops at the limit") {
    const std::string zeros(20'000'000, '\0');
    for (const auto& [how, flag] : std::vector<std::pair<Compression, std::int32_t>>{
             {Compression::kZlib, 0x1}, {Compression::kLz4, 0x101}, {Compression::kZstd, 0x201}}) {
      const auto packed = compress(as_bytes(zeros), how);
      REQUIRE(packed.has_value());
      CHECK(packed.value().size() < 200'000);
      CHECK(decompress(as_bytes(packed.value()), flag, 1'000'000).error().code == Errc::kLimit);
    }
  }

  TEST_CASE("a body without bit 0 is taken as it is") {
    CHECK(decompress(as_bytes("plain"), 0x300).value() == "plain");
    CHECK(decompress(as_bytes("plain"), 0, 4).error().code == Errc::kLimit);
    CHECK(decompress(as_bytes("x"), 0x401).error().code == Errc::kUnsupported);
  }
}
