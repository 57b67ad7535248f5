// A peek says what the decoder says, or nothing; a prepared answer has the bytes of the writer.
#include "tenon/proto/peek.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace tenon;
using namespace tenon::proto;

namespace {

std::string frame_of(std::string_view header, HeaderKind kind = HeaderKind::kJson) {
  std::string out(kFramePrefixBytes, '\0');
  store_be(out.data(), static_cast<std::uint32_t>(4 + header.size()));
  store_be(out.data() + 4,
           (static_cast<std::uint32_t>(kind) << 24) | static_cast<std::uint32_t>(header.size()));
  return out.append(header);
}

std::optional<CommandPeek> peek(const std::string& frame) {
  return peek_command(as_bytes(frame));
}

/// The peek of a frame that the decoder takes, compared with that.
void check_same(std::string frame) {
  const auto p = peek(frame);
  REQUIRE(p.has_value());
  CommandView view;
  REQUIRE(
      decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, view).has_value());
  CHECK(p->code == view.code);
  CHECK(p->opaque == view.opaque);
  CHECK(p->flag == view.flag);
  CHECK(p->kind == view.kind);
}

}  // namespace

TEST_SUITE("proto/peek") {
  TEST_CASE("what encoders write, in their order of names") {
    // fastjson
    check_same(frame_of(
        R"({"code":310,"extFields":{"a":"PG","i":"KEYS\u0001a\u0002WAIT\u0001true","n":5,"o":true},)"
        R"("flag":2,"language":"JAVA","opaque":-71,"serializeTypeCurrentRPC":"JSON","version":409})"));
    // encoding/json of Go
    check_same(frame_of(
        R"({"code":310,"language":"GO","version":317,"opaque":2147483647,"flag":0,"remark":"",)"
        R"("extFields":{"topic":"T \\","x":"\""}})"));
    check_same(frame_of(R"({"extFields":{},"flag":1,"opaque":-2147483648})"));
  }

  TEST_CASE("names inside of strings and of fields are no names of the header") {
    check_same(frame_of(
        R"({"code":310,"extFields":{"opaque":5,"code":"7","a":",\"opaque\":8,\"code\":9}"},)"
        R"("opaque":6,"flag":0})"));
    check_same(frame_of(R"({"code":1,"opaque":6,"remark":"},\"opaque\":8","flag":0,"code":11})"));
  }

  TEST_CASE("both encodings of a command with a body") {
    for (const HeaderKind kind : {HeaderKind::kJson, HeaderKind::kRocketMq}) {
      Command c{.code = 320, .opaque = 0x12345678, .flag = kFlagOneway, .kind = kind};
      c.set("topic", "T").set("queueId", std::int64_t{3});
      c.body = "{\"code\":1}";
      std::string frame;
      c.encode(frame);
      check_same(frame);
      CHECK(peek(frame)->is_oneway());
      CHECK_FALSE(peek(frame)->is_response());
    }
  }

  TEST_CASE("what only the decoder understands") {
    for (const std::string_view header : {R"({"code":"310"})",
                                          R"({ "code":310})",
                                          R"({"code":310 ,"opaque":1})",
                                          R"({"co\u0064e":310})",
                                          R"({"code":3.0})",
                                          R"({"code":null})",
                                          R"({"code":310,"x":[1]})",
                                          R"({"code":310,"extFields":null})",
                                          R"({"code":310,"extFields":{"a":{"b":1}}})",
                                          R"({})"}) {
      CAPTURE(header);
      CHECK_FALSE(peek(frame_of(header)).has_value());
    }
  }

  TEST_CASE("what nobody understands") {
    for (const std::string_view header : {R"()",
                                          R"({)",
                                          R"({"code)",
                                          R"({"code":)",
                                          R"({"code":310)",
                                          R"({"code":99999999999})",
                                          R"({"code":2147483648})",
                                          R"({"a":"b\)",
                                          R"({"a":"b)",
                                          R"({"code":310,})",
                                          R"({"code":310}})",
                                          R"({"extFields":{"a)"}) {
      CAPTURE(header);
      CHECK_FALSE(peek(frame_of(header)).has_value());
    }
    CHECK_FALSE(peek("").has_value());
    CHECK_FALSE(peek(std::string(7, '\0')).has_value());
    CHECK_FALSE(peek(frame_of(R"({"code":310})", static_cast<HeaderKind>(2))).has_value());
    CHECK_FALSE(peek(frame_of(std::string(12, '\0'), HeaderKind::kRocketMq)).has_value());
    std::string longer = frame_of(R"({"code":310})");
    longer.pop_back();
    CHECK_FALSE(peek(longer).has_value());
  }

  TEST_CASE("an answer from a template has the bytes of the writer") {
    for (const HeaderKind kind : {HeaderKind::kJson, HeaderKind::kRocketMq}) {
      for (const std::int32_t opaque : {0, 9, -1, 1'000'000'000, -2'147'483'647 - 1}) {
        FrameWriter::Head head{.code = 2,
                               .opaque = opaque,
                               .flag = kFlagResponse,
                               .kind = kind,
                               .remark = "busy, \"opaque\":0 \n"};
        std::string expected = "before";
        FrameWriter(expected, head).finish();
        const AnswerTemplate answer(head);
        std::string out = "before";
        answer.append(out, opaque);
        CHECK(out == expected);
        head.code = 100'000;  // does not fit into a binary header
        expected.clear();
        out.clear();
        FrameWriter(expected, head).finish();
        AnswerTemplate(head).append(out, opaque);
        CHECK(out == expected);
      }
    }
  }
}
