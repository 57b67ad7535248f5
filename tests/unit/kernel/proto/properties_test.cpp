#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace tenon::proto;

TEST_SUITE("proto/properties") {
  TEST_CASE("texts with and without the last separator decode equally") {
    // spec/remoting.md §9.2: 4.9.8 writes none, 4.5.2 and Node write one.
    const PropertyList expected{{"KEYS", "k"}, {"TAGS", "t"}};
    CHECK(decode_properties("KEYS\x01k\x02TAGS\x01t") == expected);
    CHECK(decode_properties("KEYS\x01k\x02TAGS\x01t\x02") == expected);
    CHECK(decode_properties("\x02\x02KEYS\x01k\x02\x02TAGS\x01t\x02\x02") == expected);
    CHECK(encode_properties(expected) == "KEYS\x01k\x02TAGS\x01t");
  }

  TEST_CASE("malformed items are skipped") {
    CHECK(decode_properties("").empty());
    CHECK(decode_properties("a\x01").empty());
    CHECK(decode_properties("\x01"
                            "b")
              .empty());
    CHECK(decode_properties("abc").empty());
    CHECK(decode_properties("name\x01").empty());
    CHECK(decode_properties("\x01value").empty());
    CHECK(decode_properties("ab\x02\x01\x02"
                            "a\x01"
                            "b") == PropertyList{{"a", "b"}});
  }

  TEST_CASE("only the first separator of an item splits it") {
    CHECK(decode_properties("a\x01"
                            "b\x01"
                            "c") == PropertyList{{"a",
                                                  "b\x01"
                                                  "c"}});
  }

  TEST_CASE("later duplicates win and keep the first place") {
    CHECK(decode_properties("a\x01"
                            "1\x02"
                            "b\x01"
                            "2\x02"
                            "a\x01"
                            "3") == PropertyList{{"a", "3"}, {"b", "2"}});
    CHECK(find_property("a\x01"
                        "1\x02"
                        "b\x01"
                        "2\x02"
                        "a\x01"
                        "3\x02"
                        "a\x01",
                        "a") == "3");
    CHECK_FALSE(find_property("a\x01"
                              "1",
                              "b")
                    .has_value());
    CHECK_FALSE(find_property("", "b").has_value());
  }

  TEST_CASE("many duplicates are found through the index") {
    std::string text;
    PropertyList expected;
    for (int i = 0; i < 5000; ++i) {
      const std::string name = "n" + std::to_string(i % 200);
      const std::string value = std::to_string(i);
      append_property(text, name, value);
      if (i >= 4800) {
        expected.emplace_back(name, value);
      }
    }
    CHECK(decode_properties(text) == expected);
  }

  TEST_CASE("append puts a separator only where one is missing") {
    std::string text;
    append_property(text, "a", "1");
    CHECK(text ==
          "a\x01"
          "1");
    append_property(text, "b", "");
    append_property(text, "", "x");
    CHECK(text ==
          "a\x01"
          "1");
    text += '\x02';
    append_property(text, "c", "3");
    CHECK(text ==
          "a\x01"
          "1\x02"
          "c\x01"
          "3");
  }

  TEST_CASE("removal keeps the order and drops the last separator") {
    const std::string text =
        "a\x01"
        "1\x02"
        "WAIT\x01true\x02"
        "b\x01"
        "2\x02WAIT\x01"
        "false\x02";
    CHECK(without_property(text, "WAIT") ==
          "a\x01"
          "1\x02"
          "b\x01"
          "2");
    CHECK(without_property(text, "a") ==
          "WAIT\x01true\x02"
          "b\x01"
          "2\x02WAIT\x01"
          "false");
    CHECK(without_property("WAIT\x01true", "WAIT").empty());
  }
}

TEST_SUITE("proto/java_hash") {
  TEST_CASE("hashes equal String.hashCode") {
    // Values computed by a Java 17 virtual machine.
    CHECK(java_hash("") == 0);
    CHECK(java_hash("a") == 97);
    CHECK(java_hash("TagA") == 2598919);
    CHECK(java_hash("TagB") == 2598920);
    CHECK(java_hash("Aa") == 2112);
    CHECK(java_hash("BB") == 2112);
    CHECK(java_hash("*") == 42);
    CHECK(java_hash("\u8BA2\u5355") == 1129459);
    CHECK(java_hash("\U0001F600") == 1772899);
    CHECK(java_hash("\u00E9\u20AC") == 15587);
    CHECK(java_hash("a\U0001F600b") == 57849694);
    CHECK(java_hash("The quick brown fox jumps over the lazy dog") == -609428141);
    CHECK(java_hash("payment-success") == -1615925444);
    CHECK(java_hash("TopicTest#C0A801051E5818B4AAC2117A8B5E0000") == 1993936655);
    CHECK(java_hash("TopicTest#Aa") == 2744770);
  }

  TEST_CASE("malformed UTF-8 hashes as Java's decoder reads it") {
    // new String(bytes, UTF_8).hashCode() of a Java 17 virtual machine.
    CHECK(java_hash("\x80") == 65533);
    CHECK(java_hash("\xe4\xb8") == 65533);
    CHECK(java_hash("a\xe4\xb8"
                    "b") == 2124838);
    CHECK(java_hash("\xf0\x9f\x98") == 65533);
    CHECK(java_hash("\xc0\x80") == 2097056);
    CHECK(java_hash("\xed\xa0\x80") == 65533);
    CHECK(java_hash("\xf5\x80\x80\x80") == 2017367872);
    CHECK(java_hash("\xe0\x80\x80") == 65074269);
    CHECK(java_hash("\xf0\x80\x80\x80") == 2017367872);
    CHECK(java_hash("\xff\xfe") == 2097056);
    CHECK(java_hash("\xf4\x90\x80\x80") == 2017367872);
    CHECK(java_hash("\xc3x") == 2031643);
  }

  TEST_CASE("the fast path equals the definition at every length") {
    std::string text;
    std::uint32_t expected = 0;
    for (int i = 0; i < 100; ++i) {
      const char c = static_cast<char>('!' + (i * 37) % 90);
      text += c;
      expected = expected * 31 + static_cast<unsigned char>(c);
      CHECK(java_hash(text) == static_cast<std::int32_t>(expected));
    }
  }

  TEST_CASE("the tags code is the sign-extended hash of TAGS") {
    CHECK(tags_code_of("KEYS\x01k\x02TAGS\x01payment-success") == -1615925444);
    CHECK(tags_code_of("KEYS\x01k") == 0);
    CHECK(tags_code_of("TAGS\x01") == 0);
  }
}
