// Settings that change while the broker runs (spec: broker §2.7, remoting §7.3).
#include "live_config.h"

#include "broker_harness.h"

#include <doctest/doctest.h>

#include <string>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;
using C = proto::RequestCode;

namespace {

proto::Command update(std::string body) {
  proto::Command c;
  c.code = C::kUpdateBrokerConfig;
  c.body = std::move(body);
  return c;
}

std::string shown(Client& c) {
  proto::Command get;
  get.code = C::kGetBrokerConfig;
  return c.call(get).body;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_SUITE("broker/live_config") {
  TEST_CASE("properties text as Java reads it") {
    const auto p = parse_properties(
        "# comment\n! another\n\n a = b c \r\nx:y\nkey\\ with=v\\=1\nempty=\nalone\na=second");
    CHECK(p.size() == 5);
    CHECK(p.at("a") == "second");
    CHECK(p.at("x") == "y");
    CHECK(p.at("key with") == "v=1");
    CHECK(p.at("empty").empty());
    CHECK(p.at("alone").empty());
  }

  TEST_CASE("a changed setting is in force at once, shows, and survives a restart") {
    // broker §23.7
    auto folder = std::make_shared<TempFolder>();
    {
      TestBroker b(folder);
      Client c(b.port());
      REQUIRE(c.call(send_command({.body = std::string(2000, 'x')})).code == 0);
      CHECK(c.call(update("maxMessageSize=1500\nnoSuchKey=1\n")).code == 0);
      CHECK(c.call(send_command({.body = std::string(2000, 'x')})).code == 13);
      CHECK(has_line(shown(c), "maxMessageSize=1500"));
      CHECK(shown(c).find("noSuchKey") == std::string::npos);
      CHECK(has_line(read_text(folder->path() / "config" / "broker.properties"),
                     "maxMessageSize=1500"));
      proto::Command get;
      get.code = C::kGetBrokerConfig;
      const auto version = proto::decode_data_version(text_field(c.call(get), "version"));
      REQUIRE(version.has_value());
      CHECK(version.value().counter == 1);
    }
    TestBroker again(folder);
    Client c(again.port());
    CHECK(c.call(send_command({.body = std::string(2000, 'x')})).code == 13);
    CHECK(has_line(shown(c), "maxMessageSize=1500"));
  }

  TEST_CASE("refusals and values that do not fit change nothing") {  // broker §23.7
    TestBroker b;
    Client c(b.port());
    const auto before = shown(c);
    const auto black = c.call(update("maxMessageSize=1500\nrocketmqHome=/x\n"));
    CHECK(black.code == 16);
    CHECK(black.remark == "Can not update config in black list.");
    const auto fixed = c.call(update("maxMessageSize=1500\nlistenPort=1\n"));
    CHECK(fixed.code == 1);
    CHECK(fixed.remark.find("listenPort") == 0);
    CHECK(c.call(update("maxMessageSize=many\n")).code == 0);
    CHECK(c.call(update("maxMessageSize=1\n")).code == 0);
    CHECK(c.call(update("traceOn=perhaps\n")).code == 0);
    CHECK(c.call(update("")).code == 0);
    CHECK(shown(c) == before);
  }

  TEST_CASE("the permission of the broker can be taken and given back") {
    TestBroker b;
    Client c(b.port());
    REQUIRE(c.call(send_command({})).code == 0);
    CHECK(c.call(update("brokerPermission=4")).code == 0);
    CHECK(c.call(send_command({})).code == 0);  // routes of before still work (broker §23.6)
    CHECK(c.call(pull_command({})).code == 0);
    CHECK(c.call(update("brokerPermission=2")).code == 0);
    CHECK(c.call(pull_command({})).code == 16);
    CHECK(c.call(update("brokerPermission=6")).code == 0);
    CHECK(c.call(send_command({})).code == 0);
  }
}
