#include "tenon/proto/json.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

using namespace tenon;
using namespace tenon::proto;

namespace {

std::string reparsed(std::string_view text) {
  const auto document = JsonDocument::parse(text);
  return document.has_value() ? document.value().root().dump() : "error " + document.error().detail;
}

bool refused(std::string_view text) {
  const auto document = JsonDocument::parse(text);
  return !document.has_value() && document.error().code == Errc::kInvalid;
}

template <class T>
std::string written(const T& v, JsonStyle style = {}) {
  std::string out;
  JsonWriter(out, style).value(v);
  return out;
}

}  // namespace

TEST_SUITE("proto/json") {
  TEST_CASE("the dialect becomes standard JSON") {
    // Each accepted by fastjson 1.2.69 with the same meaning.
    CHECK(reparsed("{a:1}") == R"({"a":1})");
    CHECK(reparsed("{'a':'b\"c'}") == R"({"a":"b\"c"})");
    CHECK(reparsed("{\"a\":1,}") == R"({"a":1})");
    CHECK(reparsed("[1,,2]") == "[1,2]");
    CHECK(reparsed("{1:2,-3:4}") == R"({"1":2,"-3":4})");
    CHECK(reparsed("{\"a\":\"\x01\n\"}") == R"({"a":"\u0001\n"})");
    CHECK(reparsed(R"({"a":"\x\v\0\'"})").starts_with("error"));
    CHECK(reparsed(R"({"a":"\v\0\'\u8BA2\uD83D\uDE00"})") == R"({"a":"\u000B\u0000'订😀"})");
    CHECK(reparsed("{\"a\":+1}") == R"({"a":1})");
    CHECK(reparsed("{\"a\":1.}") == R"({"a":1})");
    CHECK(reparsed("{\"a\":007}") == R"({"a":7})");
    CHECK(reparsed("{\"a\":1L}") == R"({"a":1})");
    CHECK(reparsed("/*c*/{\"a\":1}//x") == R"({"a":1})");
    CHECK(reparsed("{\"a\":NaN}") == R"({"a":null})");
    CHECK(reparsed(R"({"a":"\ud800"})") == "{\"a\":\"\uFFFD\"}");
    CHECK(reparsed("{\"a\":Set[1,2],b:TreeSet[]}") == R"({"a":[1,2],"b":[]})");
  }

  TEST_CASE("an object as key becomes its text") {
    const auto document = JsonDocument::parse(R"({{"brokerName":"b","queueId":1,'topic':"T"}:5})");
    REQUIRE(document.has_value());
    const auto [key, value] = document.value().root().member(0);
    CHECK(key == R"({"brokerName":"b","queueId":1,"topic":"T"})");
    CHECK(value.integer() == 5);
    CHECK(refused("{{{{1:2}:3}:4}:5}"));
  }

  TEST_CASE("of duplicate keys the last one wins") {
    CHECK(reparsed(R"({"a":1,"b":2,"a":3})") == R"({"a":3,"b":2})");
    CHECK(reparsed(R"({a:1,a:3})") == R"({"a":3})");
  }

  TEST_CASE("what is not even the dialect is refused") {
    for (const char* text : {"",          " ",
                             "{",         "[",
                             "}",         "{]",
                             "[}",        "{\"a\"}",
                             "{\"a\":}",  "{:1}",
                             "{\"a\" 1}", "{a:b}",
                             "\"a",       "'a",
                             "\"\\",      "\"\\u12\"",
                             "\"\\q\"",   "tru",
                             "TRUE",      "-",
                             "+",         "1e",
                             "1x",        "{}x",
                             "[1 2]",     "{\"a\":1 \"b\":2}",
                             "{1.5:2}",   "/*",
                             "/",         ",",
                             "nul",       "{{}",
                             "{{}:}",     "{{1:2}}"}) {
      INFO(std::string(text));
      CHECK(refused(text));
    }
  }

  TEST_CASE("nesting is limited") {
    CHECK_FALSE(refused(std::string(60, '[') + std::string(60, ']')));
    CHECK(refused(std::string(100'000, '[')));
    CHECK(refused(std::string(100, '[') + std::string(100, ']')));
    std::string keys;
    for (int i = 0; i < 50'000; ++i) {
      keys += '{';
    }
    CHECK(refused(keys));
    std::string objects;
    for (int i = 0; i < 50'000; ++i) {
      objects += "{a:";
    }
    CHECK(refused(objects));
  }

  TEST_CASE("lookups in what is not there are absent") {
    const auto document = JsonDocument::parse(R"({"a":{"b":[1,null]},"s":"x"})");
    REQUIRE(document.has_value());
    const JsonNode root = document.value().root();
    CHECK(root["a"]["b"].at(0).integer() == 1);
    CHECK(root["a"]["b"].at(1).is_null());
    CHECK(root["a"]["b"].at(1).present());
    CHECK_FALSE(root["a"]["b"].at(2).present());
    CHECK_FALSE(root["x"]["y"].at(7)["z"].present());
    CHECK_FALSE(root["s"]["y"].present());
    CHECK(root["x"].size() == 0);
    CHECK(root["x"].string().empty());
    CHECK_FALSE(root["x"].text().has_value());
    CHECK(root["x"].dump() == "null");
    CHECK(root.member(9).first.empty());
  }

  TEST_CASE("conversions are lenient") {
    const auto document = JsonDocument::parse(
        R"({"i":"12","d":"1.5","t":"true","n":3,"f":2.9,"b":true,"big":9223372036854775808,"bad":"x",)"
        R"("o":{"k":1},"neg":-9223372036854775808,"huge":1e300})");
    REQUIRE(document.has_value());
    const JsonNode root = document.value().root();
    CHECK(root["i"].integer() == 12);
    CHECK(root["i"].number() == 12.0);
    CHECK(root["d"].number() == 1.5);
    CHECK_FALSE(root["d"].integer().has_value());
    CHECK(root["t"].boolean() == true);
    CHECK(root["n"].boolean() == false);
    CHECK(root["n"].text() == "3");
    CHECK(root["f"].integer() == 2);
    CHECK(root["b"].integer() == 1);
    CHECK(root["b"].text() == "true");
    CHECK_FALSE(root["big"].integer().has_value());
    CHECK_FALSE(root["huge"].integer().has_value());
    CHECK(root["neg"].integer() == std::numeric_limits<std::int64_t>::min());
    CHECK_FALSE(root["bad"].integer().has_value());
    CHECK_FALSE(root["bad"].boolean().has_value());
    CHECK(root["o"].text() == R"({"k":1})");
    CHECK_FALSE(root["o"].integer().has_value());
  }

  TEST_CASE("doubles look as in Java") {
    // JSON.toJSONString(double) of fastjson 1.2.69.
    CHECK(written(0.0) == "0.0");
    CHECK(written(1.0) == "1.0");
    CHECK(written(1.5) == "1.5");
    CHECK(written(0.001) == "0.001");
    CHECK(written(0.0001) == "1.0E-4");
    CHECK(written(1e7) == "1.0E7");
    CHECK(written(1234567.0) == "1234567.0");
    CHECK(written(12345678.9) == "1.23456789E7");
    CHECK(written(1e21) == "1.0E21");
    CHECK(written(-3.25) == "-3.25");
    CHECK(written(1e-7) == "1.0E-7");
    CHECK(written(100.0) == "100.0");
    CHECK(written(1e-300) == "1.0E-300");
    CHECK(written(std::numeric_limits<double>::quiet_NaN()) == "null");
  }

  TEST_CASE("strings are escaped as fastjson does it") {
    // Both outputs taken from fastjson 1.2.69; the second with BrowserCompatible.
    const std::string text = "\x01\b\t\n\x0b\f\r\x1f\"\\/\x7f\u0080\u009f\u00a0é\u2028\u2029订😀";
    CHECK(written(text) == R"("\u0001\b\t\n\u000B\f\r\u001F\"\\/\u007F\u0080\u009F)"
                           "\u00a0é"
                           R"(\u2028\u2029订😀")");
    JsonStyle ascii;
    ascii.ascii = true;
    CHECK(written(text, ascii) ==
          R"("\u0001\b\t\n\u000B\f\r\u001F\"\\\/\u007F\u0080\u009F\u00A0\u00E9\u2028\u2029)"
          R"(\u8BA2\uD83D\uDE00")");
  }

  TEST_CASE("layouts") {
    const auto write = [](JsonLayout layout) {
      JsonStyle style;
      style.layout = layout;
      style.quote_integer_keys = false;
      std::string out;
      JsonWriter w(out, style);
      w.begin_object().member("a", 1).member("u", std::uint64_t{18446744073709551615u});
      w.key("list").begin_array().value("x").value(true).end_array();
      w.key("set").begin_array(true).value("p").value("q").end_array();
      w.key("e").begin_array().end_array().key("o").begin_object().end_object();
      w.key("map").begin_object().key(std::int64_t{1}).value(2).key(std::int64_t{3}).value(4);
      w.end_object().key("q").begin_object();
      w.begin_object_key().member("k", 1).end_object_key().value(5);
      w.begin_object_key().member("k", 2).end_object_key().value(6).end_object().end_object();
      return out;
    };
    CHECK(write(JsonLayout::kCompact) ==
          R"({"a":1,"u":18446744073709551615,"list":["x",true],"set":["p","q"],"e":[],"o":{},)"
          R"("map":{1:2,3:4},"q":{{"k":1}:5,{"k":2}:6}})");
    // As JSON.toJSONString(map, true) lays it out.
    CHECK(write(JsonLayout::kJava) ==
          "{\n\t\"a\":1,\n\t\"u\":18446744073709551615,\n\t\"list\":[\n\t\t\"x\",\n\t\ttrue\n\t],"
          "\n\t\"set\":[\"p\",\"q\"],\n\t\"e\":[],\n\t\"o\":{},\n\t\"map\":{1:2,3:4\n\t},"
          "\n\t\"q\":{{\n\t\t\t\"k\":1\n\t\t}:5,{\n\t\t\t\"k\":2\n\t\t}:6\n\t}\n}");
    std::string pretty;
    JsonStyle style;
    style.layout = JsonLayout::kPretty;
    JsonWriter w(pretty, style);
    w.begin_object().key(std::int64_t{7}).begin_array().begin_object().member("a", 1.0);
    w.end_object().null().raw("[1]").end_array().end_object();
    CHECK(pretty == "{\n  \"7\": [\n    {\n      \"a\": 1.0\n    },\n    null,\n    [1]\n  ]\n}");
  }

  TEST_CASE("a tree is copied by a writer") {
    const auto document =
        JsonDocument::parse(R"({"a":[1,-2,18446744073709551615,1.5,"s",null,true,{}]})");
    REQUIRE(document.has_value());
    CHECK(document.value().root().dump() ==
          R"({"a":[1,-2,18446744073709551615,1.5,"s",null,true,{}]})");
  }
}
