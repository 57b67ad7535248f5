#include "tenon/proto/command.h"

#include "hex.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <limits>

using namespace tenon;
using namespace tenon::proto;
using tenon::test::hex;
using tenon::test::unhex;
using tenon::test::writable;

namespace {

std::string json_frame(std::string_view header, std::string_view body = {}) {
  std::string out(8, '\0');
  store_be(out.data(), static_cast<std::uint32_t>(4 + header.size() + body.size()));
  store_be(out.data() + 4, static_cast<std::uint32_t>(header.size()));
  return out.append(header).append(body);
}

std::string binary_frame(std::string_view header) {
  std::string out = json_frame(header);
  out[4] = 1;
  return out;
}

Errc decode_error(std::string frame) {
  CommandView view;
  const auto r = decode_command(writable(frame), view);
  return r.has_value() ? Errc{} : r.error().code;
}

Errc prefix_error(std::string_view hex_text) {
  const std::string bytes = unhex(hex_text);
  const auto r = decode_frame_prefix(as_bytes(bytes));
  return r.has_value() ? Errc{} : r.error().code;
}

}  // namespace

TEST_SUITE("proto/frame") {
  TEST_CASE("lengths on both sides of every limit") {
    // spec/remoting.md §1.10: L + 4 <= 16777216.
    CHECK(prefix_error("00FFFFFC 00000000") == Errc{});
    CHECK(prefix_error("00FFFFFD 00000000") == Errc::kLimit);
    CHECK(prefix_error("FFFFFFFF 00000000") == Errc::kLimit);
    CHECK(prefix_error("80000000 00000000") == Errc::kLimit);
    CHECK(prefix_error("00000004 00000000") == Errc{});
    CHECK(prefix_error("00000003 00000000") == Errc::kInvalid);
    CHECK(prefix_error("00000000 00000000") == Errc::kInvalid);
    CHECK(prefix_error("00000008 00000004") == Errc{});
    CHECK(prefix_error("00000008 00000005") == Errc::kInvalid);
    CHECK(prefix_error("00000008 01000004") == Errc{});
    CHECK(prefix_error("00000008 02000004") == Errc::kInvalid);
    CHECK(prefix_error("00000008 FF000004") == Errc::kInvalid);
  }

  TEST_CASE("a caller's own limit counts the length word") {
    const std::string bytes = unhex("00000060 00000010");
    CHECK(decode_frame_prefix(as_bytes(bytes), 100).has_value());
    CHECK(decode_frame_prefix(as_bytes(bytes), 99).error().code == Errc::kLimit);
    CHECK(decode_frame_prefix(as_bytes(bytes)).value().body_bytes() == 0x60 - 4 - 0x10);
    CHECK(decode_frame_prefix(as_bytes(bytes)).value().total_bytes() == 100);
  }
}

TEST_SUITE("proto/command") {
  TEST_CASE("the worked frames of the specification") {
    // spec/remoting.md §1.16.
    FrameWriter::Head head;
    head.code = RequestCode::kGetConsumerListByGroup;
    head.opaque = 1;
    std::string out;
    {
      FrameWriter w(out, head);
      w.field("consumerGroup", "g");
      w.finish();
    }
    CHECK(out.substr(8) ==
          R"({"code":38,"extFields":{"consumerGroup":"g"},"flag":0,"language":"JAVA","opaque":1,)"
          R"("serializeTypeCurrentRPC":"JSON","version":409})");
    CHECK(hex(out.substr(0, 8)) == "0000008600000082");

    head.kind = HeaderKind::kRocketMq;
    out.clear();
    {
      FrameWriter w(out, head);
      w.field("consumerGroup", "g");
      w.finish();
    }
    CHECK(out == unhex("0000002D 01000029 0026 00 0199 00000001 00000000 00000000 00000014 000D "
                       "636F6E73756D657247726F7570 00000001 67"));

    out.clear();
    head = {};
    head.opaque = 7;
    head.flag = kFlagResponse;
    head.kind = HeaderKind::kRocketMq;
    FrameWriter(out, head).finish();
    CHECK(out == unhex("00000019 01000015 0000 00 0199 00000007 00000001 00000000 00000000"));

    CommandView view;
    REQUIRE(decode_command(writable(out), view).has_value());
    CHECK(view.is_response());
    CHECK(view.opaque == 7);
    CHECK(view.version == 409);
    CHECK(view.language == Language::kJava);
    CHECK(view.fields.empty());
  }

  TEST_CASE("the JSON header tolerates what other clients send") {
    // spec/remoting.md §1.3: any order, unknown keys, numbers as strings, raw ext values.
    std::string frame = json_frame(
        " { \"version\" : \"121\" , \"unknown\":[1,{\"a\":[true,null,\"}\"]},-1.5e3], "
        "\"extFields\":"
        "{\"n\":4,\"b\":false,\"t\":true,\"x\":null,\"o\":{\"k\": [1, \"a\\\"b\"]},\"a\":[1,2],"
        "\"d\":-1.50},\"opaque\":\"-7\",\"language\":12,\"code\":\"310\",\"remark\":null}\n",
        "body");
    CommandView view;
    REQUIRE(decode_command(writable(frame), view).has_value());
    CHECK(view.code == 310);
    CHECK(view.version == 121);
    CHECK(view.opaque == -7);
    CHECK(view.flag == 0);
    CHECK(view.language == Language::kRust);
    CHECK(view.remark.empty());
    CHECK(view.field("n") == "4");
    CHECK(view.field("b") == "false");
    CHECK(view.field_bool("b") == false);
    CHECK(view.field_bool("t") == true);
    CHECK_FALSE(view.field("x").has_value());
    CHECK(view.field("o") == R"({"k": [1, "a\"b"]})");
    CHECK(view.field("a") == "[1,2]");
    CHECK(view.field("d") == "-1.50");
    CHECK(as_text(view.body) == "body");
  }

  TEST_CASE("unknown languages do not fail the request") {
    for (const char* language : {"\"COBOL\"", "99", "-1", "null", "[]", "{\"a\":1}", "1.5"}) {
      std::string frame = json_frame("{\"language\":" + std::string(language) + ",\"code\":1}");
      CommandView view;
      REQUIRE(decode_command(writable(frame), view).has_value());
      CHECK(view.language == Language::kOther);
      CHECK(view.code == 1);
    }
  }

  TEST_CASE("escapes are undone in place") {
    std::string frame = json_frame(
        R"({"extFields":{"i":"KEYS\u0001k\u0002TAGS\u0001\u8BA2\uD83D\uDE00\n\/","\u0062":"\\\"","s":"\ud800x"},"remark":"a\tb"})");
    CommandView view;
    REQUIRE(decode_command(writable(frame), view).has_value());
    CHECK(view.field("i") == "KEYS\x01k\x02TAGS\x01\u8BA2\U0001F600\n/");
    CHECK(view.field("b") == "\\\"");
    CHECK(view.field("s") == "\uFFFDx");
    CHECK(view.remark == "a\tb");
  }

  TEST_CASE("of duplicate keys the last one wins") {
    std::string frame =
        json_frame(R"({"code":1,"extFields":{"a":"1"},"code":2,"extFields":{"a":"2","a":"3"}})");
    CommandView view;
    REQUIRE(decode_command(writable(frame), view).has_value());
    CHECK(view.code == 2);
    CHECK(view.fields.size() == 2);
    CHECK(view.field("a") == "3");
  }

  TEST_CASE("a reused view carries nothing over") {
    std::string first = json_frame(
        R"({"code":5,"version":3,"opaque":4,"flag":3,"language":"GO","remark":"r","extFields":{"a":"1"}})",
        "xyz");
    std::string second = json_frame("{}");
    CommandView view;
    REQUIRE(decode_command(writable(first), view).has_value());
    REQUIRE(decode_command(writable(second), view).has_value());
    CHECK(view.code == 0);
    CHECK(view.version == 0);
    CHECK(view.opaque == 0);
    CHECK(view.flag == 0);
    CHECK(view.language == Language::kOther);
    CHECK(view.remark.empty());
    CHECK(view.fields.empty());
    CHECK(view.body.empty());
  }

  TEST_CASE("broken JSON headers are refused") {
    for (const char* header : {"",
                               "   ",
                               "[]",
                               "1",
                               "\"\"",
                               "{",
                               "{\"code\"",
                               "{\"code\":",
                               "{\"code\":1",
                               "{\"code\":1,",
                               "{\"code\":1,}",

                               "{\"code\":+1}",
                               "{\"code\":-}",
                               "{\"code\":1.}",
                               "{\"code\":1e}",
                               "{\"code\":\"\"}",
                               "{\"code\":\"x\"}",
                               "{\"code\":99999999999}",
                               "{\"code\":\"99999999999\"}",
                               "{\"code\":true}",
                               "{\"code\":nul}",
                               "{\"code\":nope}",
                               "{\"code\":1}x",
                               "{\"code\":1}{}",
                               "{code:1}",
                               "{'code':1}",
                               "{\"code\" 1}",
                               "{\"remark\":\"a}",
                               "{\"remark\":\"\\q\"}",
                               "{\"remark\":\"\\u12\"}",
                               "{\"remark\":\"\\u12G4\"}",
                               "{\"remark\":\"\\",
                               "{\"remark\":\"\\\"}",
                               "{\"extFields\":[]}",
                               "{\"extFields\":{\"a\"}}",
                               "{\"extFields\":{\"a\":}}",
                               "{\"extFields\":{\"a\":1,}}",
                               "{\"extFields\":{\"a\":{]}}",
                               "{\"x\":[1,]}",
                               "{\"x\":[1}",
                               "{\"x\":{1:2}}",
                               "{\"x\":tru}"}) {
      INFO(std::string(header));
      CHECK(decode_error(json_frame(header)) == Errc::kInvalid);
    }
    // Nesting is bounded; the limit is far beyond what a client sends.
    CHECK(decode_error(json_frame("{\"x\":" + std::string(100000, '[') + "}")) == Errc::kInvalid);
    const std::string deep = std::string(50, '[') + std::string(50, ']');
    CHECK(decode_error(json_frame("{\"x\":" + deep + "}")) == Errc{});
  }

  TEST_CASE("every truncation of a frame is refused") {
    std::string whole = json_frame(R"({"code":1,"extFields":{"a":"\u0001"}})", "body");
    for (std::size_t n = 0; n < whole.size(); ++n) {
      CHECK(decode_error(whole.substr(0, n)) == Errc::kInvalid);
    }
    CHECK(decode_error(whole + "x") == Errc::kInvalid);
  }

  TEST_CASE("every truncation of a header is refused") {
    const std::string json = R"({"code":1,"extFields":{"a":"\u0001"}})";
    for (std::size_t n = 0; n < json.size(); ++n) {
      CHECK(decode_error(json_frame(json.substr(0, n))) == Errc::kInvalid);
    }
    const std::string binary = unhex(
        "0026 00 0199 00000001 00000000 00000001 72 00000014 000D 636F6E73756D657247726F7570 "
        "00000001 67");
    for (std::size_t n = 0; n < binary.size(); ++n) {
      CHECK(decode_error(binary_frame(binary.substr(0, n))) == Errc::kInvalid);
    }
    CHECK(decode_error(binary_frame(binary)) == Errc{});
  }

  TEST_CASE("lengths in a binary header are bounded by what encloses them") {
    const auto header = [](std::string_view tail) {
      return binary_frame(unhex("0026 00 0199 00000001 00000000") + unhex(tail));
    };
    CHECK(decode_error(header("00000000 00000000")) == Errc{});
    CHECK(decode_error(header("FFFFFFFF 00000000")) == Errc::kInvalid);
    CHECK(decode_error(header("00000005 00000000")) == Errc::kInvalid);
    CHECK(decode_error(header("7FFFFFFF 00000000")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 FFFFFFFF")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 00000001")) == Errc::kInvalid);
    // Key longer than the map, negative key, value longer than the map, negative value.
    CHECK(decode_error(header("00000000 00000008 0007 6B 00000001 76")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 00000008 FFFF 6B 00000001 76")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 00000008 0001 6B 00000002 76")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 00000008 0001 6B FFFFFFFF 76")) == Errc::kInvalid);
    CHECK(decode_error(header("00000000 00000008 0001 6B 00000001 76")) == Errc{});
  }

  TEST_CASE("empty strings of a binary map are absent") {
    // Trap of spec/remoting.md §1.4.
    std::string frame = binary_frame(
        unhex("0026 FE FFFF 00000001 00000000 00000000 00000016 0001 61 00000000 0000 00000001 31 "
              "0001 62 00000001 32"));
    CommandView view;
    REQUIRE(decode_command(writable(frame), view).has_value());
    CHECK(view.version == -1);
    CHECK(view.language == Language::kOther);
    CHECK(view.fields.size() == 1);
    CHECK(view.field("b") == "2");
  }

  TEST_CASE("both encodings carry a command there and back") {
    for (const HeaderKind kind : {HeaderKind::kJson, HeaderKind::kRocketMq}) {
      Command c;
      c.code = 310;
      c.language = Language::kCpp;
      c.version = 333;
      c.opaque = std::numeric_limits<std::int32_t>::min();
      c.flag = kFlagOneway;
      c.kind = kind;
      c.remark = "a \"remark\"\n\u8BA2\u2028\u0085\x7F";
      c.set("i", "KEYS\x01k\x02").set("g", std::int64_t{-1}).set("g", std::int64_t{1700000000000});
      c.body = std::string("\0\1\xff", 3);
      std::string frame;
      c.encode(frame);
      CommandView view;
      REQUIRE(decode_command(writable(frame), view).has_value());
      const Command back = Command::from(view);
      CHECK(back.code == c.code);
      CHECK(back.language == c.language);
      CHECK(back.version == c.version);
      CHECK(back.opaque == c.opaque);
      CHECK(back.flag == c.flag);
      CHECK(back.kind == kind);
      CHECK(back.remark == c.remark);
      CHECK(back.fields == c.fields);
      CHECK(back.field_long("g") == 1700000000000);
      CHECK(back.body == c.body);
      CHECK(view.is_oneway());
      CHECK_FALSE(view.is_response());
    }
  }

  TEST_CASE("control characters are escaped in capitals as fastjson writes them") {
    std::string out;
    FrameWriter w(out, {});
    w.field("i", "a\x01\x1f\"\\\n");
    w.empty_fields();
    w.finish();
    CHECK(out.find(R"("extFields":{"i":"a\u0001\u001F\"\\\n"})") != std::string::npos);
  }

  TEST_CASE("an empty extFields object is written on demand") {
    std::string out;
    FrameWriter w(out, {});
    w.empty_fields();
    w.finish(as_bytes("body"));
    CHECK(out.substr(8) == R"({"code":0,"extFields":{},"flag":0,"language":"JAVA","opaque":0,)"
                           R"("serializeTypeCurrentRPC":"JSON","version":409}body)");
  }

  TEST_CASE("a detached body counts in the length") {
    std::string out = "before";
    FrameWriter::Head head;
    head.kind = HeaderKind::kRocketMq;
    FrameWriter w(out, head);
    w.finish_detached(1000);
    CHECK(out.size() == 6 + 8 + 21);
    CHECK(load_be<std::uint32_t>(out.data() + 6) == 4 + 21 + 1000);
  }

  TEST_CASE("a code beyond 16 bits falls back to JSON") {
    FrameWriter::Head head;
    head.kind = HeaderKind::kRocketMq;
    head.code = RequestCode::kPopMessage;
    std::string out;
    FrameWriter w(out, head);
    w.field("a", 1);
    w.finish();
    CommandView view;
    REQUIRE(decode_command(writable(out), view).has_value());
    CHECK(view.kind == HeaderKind::kJson);
    CHECK(view.code == 200050);
  }

  TEST_CASE("what does not fit into a header is cut or left out") {
    Command c;
    c.remark = std::string(100'000, '\x01');
    c.set("big", std::string(6'000'000, '\x02')).set("small", "s");
    std::string out;
    c.encode(out);
    CommandView view;
    REQUIRE(decode_command(writable(out), view).has_value());
    CHECK(view.remark.size() == 65536);
    CHECK_FALSE(view.field("big").has_value());
    CHECK(view.field("small") == "s");

    c = {};
    c.kind = HeaderKind::kRocketMq;
    c.set(std::string(40'000, 'k'), "v").set("small", "s");
    out.clear();
    c.encode(out);
    REQUIRE(decode_command(writable(out), view).has_value());
    CHECK(view.fields.size() == 1);
  }

  TEST_CASE("numbers parse as Integer.parseInt does") {
    CHECK(parse_int("0") == 0);
    CHECK(parse_int("-0") == 0);
    CHECK(parse_int("+5") == 5);
    CHECK(parse_int("007") == 7);
    CHECK(parse_int("2147483647") == 2147483647);
    CHECK(parse_int("-2147483648") == std::numeric_limits<std::int32_t>::min());
    for (const char* bad : {"",
                            "+",
                            "-",
                            "+-1",
                            "-+1",
                            " 1",
                            "1 ",
                            "1.0",
                            "0x1",
                            "2147483648",
                            "-2147483649",
                            "1e3",
                            "a"}) {
      INFO(std::string(bad));
      CHECK_FALSE(parse_int(bad).has_value());
    }
    CHECK(parse_long("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
    CHECK_FALSE(parse_long("9223372036854775808").has_value());
  }

  TEST_CASE("booleans parse as Boolean.parseBoolean does") {
    std::string frame =
        json_frame(R"({"extFields":{"a":"TRUE","b":"tRue","c":"1","d":"","e":"yes","f":"truex"}})");
    CommandView view;
    REQUIRE(decode_command(writable(frame), view).has_value());
    CHECK(view.field_bool("a") == true);
    CHECK(view.field_bool("b") == true);
    CHECK(view.field_bool("c") == false);
    CHECK(view.field_bool("d") == false);
    CHECK(view.field_bool("e") == false);
    CHECK(view.field_bool("f") == false);
    CHECK_FALSE(view.field_bool("g").has_value());
  }

  TEST_CASE("language names go both ways") {
    for (int i = 0; i <= static_cast<int>(Language::kNodeJs); ++i) {
      const auto language = static_cast<Language>(i);
      CHECK(language_from_name(to_string(language)) == language);
    }
    CHECK(language_from_name("java") == Language::kOther);
  }
}
