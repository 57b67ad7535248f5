#include "tenon/proto/acl.h"

#include "hex.h"
#include "paths.h"

#include "tenon/base/endian.h"
#include "tenon/proto/json.h"

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::proto;

namespace {

std::string hmac_hex(std::string_view key, std::string_view text) {
  const std::string_view parts[] = {text};
  const Sha1Digest digest = hmac_sha1(key, parts);
  return test::hex(as_text(digest));
}

}  // namespace

TEST_SUITE("proto/acl") {
  TEST_CASE("HMAC-SHA1 gives the values of RFC 2202, also in pieces") {
    CHECK(hmac_hex(std::string(20, '\x0b'), "Hi There") ==
          "B617318655057264E28BC0B6FB378C8EF146BE00");
    CHECK(hmac_hex("Jefe", "what do ya want for nothing?") ==
          "EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79");
    // A key longer than a block is hashed first; the text is longer than a block.
    CHECK(hmac_hex(std::string(80, '\xaa'),
                   "Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data") ==
          "E8E99D0F45237D786D6BBAA7965C7808BBFF1A91");
    const std::string_view parts[] = {"what do ", "", "ya want for nothing?"};
    const Sha1Digest digest = hmac_sha1("Jefe", parts);
    CHECK(test::hex(as_text(digest)) == "EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79");
  }

  TEST_CASE("texts whose padding just fits and just does not") {
    // Inner text 64 + n bytes: the length word fits behind n = 55 bytes, not behind 56.
    CHECK(hmac_hex("k", std::string(55, 'a')) == "4CAC64AF0841D8732AD8A00BF1258E8746023132");
    CHECK(hmac_hex("k", std::string(56, 'a')) == "EEDA23BC9A9FBECEC01E9E5EAE6988B3CB285723");
    CHECK(hmac_hex("k", std::string(64, 'a')) == "D9382346A6E1FF9B516CB9E0955AD76B69561875");
  }

  TEST_CASE("Base64 pads") {
    CHECK(base64(as_bytes("")) == "");
    CHECK(base64(as_bytes("f")) == "Zg==");
    CHECK(base64(as_bytes("fo")) == "Zm8=");
    CHECK(base64(as_bytes("foo")) == "Zm9v");
    CHECK(base64(as_bytes("\xff\xfe\xfd\xfc")) == "//79/A==");
  }

  TEST_CASE("the three signatures of the specification") {
    // client §3.5, §14.11
    const std::vector<Field> route{{"topic", "TopicTest"}, {"AccessKey", "RocketMQ"}};
    CHECK(acl_signature("12345678", route, {}) == "0jiwhsaYp5ObE5GObbZH1I8/FT4=");
    const std::vector<Field> beat{{"AccessKey", "RocketMQ"}, {"Signature", "not signed itself"}};
    CHECK(acl_signature("12345678",
                        beat,
                        as_bytes("{\"clientID\":\"10.0.0.1@1000\",\"consumerDataSet\":[],"
                                 "\"producerDataSet\":[{\"groupName\":\"pg\"}]}")) ==
          "Jw1aQ4kmslz+L+P+F3nJq4GQf1k=");
    const std::vector<Field> send{{"n", "broker-a"},
                                  {"m", "false"},
                                  {"k", "false"},
                                  {"j", "0"},
                                  {"i",
                                   "UNIQ_KEY\1"
                                   "7F0000010ABC18B4AAC2000000000000\2WAIT\1true"},
                                  {"h", "0"},
                                  {"g", "1700000000000"},
                                  {"f", "0"},
                                  {"e", "2"},
                                  {"d", "4"},
                                  {"c", "TBW102"},
                                  {"b", "TopicTest"},
                                  {"a", "ProducerGroupName"},
                                  {"AccessKey", "RocketMQ"}};
    CHECK(acl_signature("12345678", send, as_bytes("Hello")) == "RUcLOtSslBF2OsdR/FLl3JzM0Vw=");
  }

  TEST_CASE("the signatures of an official client's frames") {
    // acl-4.9.7.jsonl: two accounts; three frames of WireUser were signed with a wrong secret.
    const std::map<std::string_view, std::string_view> secrets{{"WireUser", "wire-secret-1"},
                                                               {"WireAdmin", "wire-secret-2"}};
    std::ifstream in(tenon::test::data_dir() + "/wire/acl-4.9.7.jsonl");
    int same = 0;
    int different = 0;
    for (std::string line; std::getline(in, line);) {
      auto document = JsonDocument::parse(line);
      REQUIRE(document.has_value());
      std::string raw = test::unhex(document.value().root()["raw_hex"].string());
      CommandView command;
      REQUIRE(decode_command({reinterpret_cast<std::byte*>(raw.data()), raw.size()}, command)
                  .has_value());
      const auto signature = command.field(kAclSignature);
      const auto account = secrets.find(command.field(kAclAccessKey).value_or(""));
      if (!signature || account == secrets.end()) {
        continue;
      }
      const std::string ours = acl_signature(
          account->second, {command.fields.data(), command.fields.size()}, command.body);
      ++(ours == *signature ? same : different);
    }
    CHECK(same == 37);
    CHECK(different == 3);
  }
}
