// Name servers from an HTTP end point (client §1.4).
#include "name_server_url.h"

#include "../../support/http_answers.h"
#include "client_core.h"
#include "fake_cluster.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

using namespace tenon::sdk;
using namespace tenon::sdk::test;
using namespace std::chrono_literals;
using tenon::test::HttpAnswers;

TEST_SUITE("sdk/name_server_url") {
  TEST_CASE("what a URL may look like") {
    const HttpUrl full = parse_http_url("http://ns.example:8080/rocketmq/nsaddr?x=1").value();
    CHECK(full.host == "ns.example");
    CHECK(full.port == "8080");
    CHECK(full.path == "/rocketmq/nsaddr?x=1");
    const HttpUrl bare = parse_http_url("http://ns.example").value();
    CHECK(bare.port == "80");
    CHECK(bare.path == "/");
    const HttpUrl six = parse_http_url("http://[::1]:90/a").value();
    CHECK(six.host == "::1");
    CHECK(six.port == "90");
    for (const char* bad : {"",
                            "ns.example:8080",
                            "https://ns.example/",
                            "http://",
                            "http:///path",
                            "http://host:/x",
                            "http://host:80a/x",
                            "http://[::1/x",
                            "http://host/a b",
                            "http://host/\r\nHost: other"}) {
      CAPTURE(bad);
      CHECK(parse_http_url(bad).error().is(Errc::kInvalidArgument));
    }
    CHECK(url_of_unit("http://h/rocketmq/nsaddr", "unit1") ==
          "http://h/rocketmq/nsaddr-unit1?nofix=1");
    CHECK(url_of_unit("http://h/rocketmq/nsaddr", "") == "http://h/rocketmq/nsaddr");
  }

  TEST_CASE("the first line of a 200 answer is the list") {
    CHECK(first_line_of_answer("HTTP/1.1 200 OK\r\nA: b\r\n\r\n a:1;b:2 \r\nmore").value() ==
          "a:1;b:2");
    CHECK(first_line_of_answer("HTTP/1.0 200 OK\r\n\r\n").value().empty());
    CHECK(first_line_of_answer("HTTP/1.1 404 Not Found\r\n\r\na:1").error().is(Errc::kRefused));
    for (const char* bad : {"", "a:1;b:2", "HTTP/1.1 200 OK\r\n", "HTTP/1.1\r\n\r\n 200"}) {
      CAPTURE(bad);
      CHECK(first_line_of_answer(bad).error().is(Errc::kBadAnswer));
    }
  }

  TEST_CASE("over a socket: the answer, a refusal, silence, nobody") {
    {
      HttpAnswers server("HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\na:1;b:2\n");
      CHECK(fetch_first_line(server.url(), 10s).value() == "a:1;b:2");
      const std::string request = server.request();
      CHECK(request.starts_with("GET /rocketmq/nsaddr HTTP/1.0\r\nHost: 127.0.0.1:"));
    }
    {
      HttpAnswers server("HTTP/1.1 503 Busy\r\n\r\n");
      const auto r = fetch_first_line(server.url(), 10s);
      CHECK(r.error().is(Errc::kRefused));
      CHECK(r.error().remark.find("503") != std::string::npos);
    }
    std::string url;
    {
      HttpAnswers server("");
      url = server.url();
      CHECK(fetch_first_line(url, 50ms).error().is(Errc::kTimeout));
    }
    CHECK(fetch_first_line(url, 10s).error().is(Errc::kConnect));
  }

  TEST_CASE("a client asks at the start, after 10 s and then each 120 s; a change is taken over") {
    tenon::ManualClock clock;
    FakeCluster cluster;
    cluster.add_topic("T", {"a"}, 1);
    std::mutex mutex;
    std::string list = "ns1:9876;ns2:9876";
    std::vector<std::string> asked;
    detail::CoreDeps deps;
    deps.clock = &clock;
    deps.threads = false;
    deps.make_rpc = [&](tenon::net::ConnectionHandler&) { return cluster.make_rpc(); };
    deps.fetch_name_servers = [&](const std::string& url) -> Result<std::string> {
      const std::scoped_lock lock(mutex);
      asked.push_back(url);
      if (list.empty()) {
        Error e;
        e.code = make_error_code(Errc::kConnect);
        return e;
      }
      return list;
    };
    ClientOptions o;
    o.name_server_url = "http://ns.example/nsaddr";
    o.unit_name = "u";
    const auto client = detail::ClientCore::create(o, deps).value();
    const auto count = [&] {
      const std::scoped_lock lock(mutex);
      return asked.size();
    };
    CHECK(count() == 1);
    CHECK(asked[0] == "http://ns.example/nsaddr-u?nofix=1");
    CHECK(client->routes().name_servers().size() == 2);
    CHECK(client->routes().fetch_blocking("T").has_value());
    {
      const std::scoped_lock lock(mutex);
      list = "ns3:9876";
    }
    clock.advance_ms(9'999);
    client->timers().run_due();
    CHECK(count() == 1);
    clock.advance_ms(1);
    client->timers().run_due();
    CHECK(eventually(
        [&] { return client->routes().name_servers() == std::vector<std::string>{"ns3:9876"}; }));
    CHECK(client->routes().fetch_blocking("T").has_value());
    CHECK(cluster.requests(tenon::proto::RequestCode::kGetRouteinfoByTopic).back().address ==
          "ns3:9876");
    {  // the end point is away: what is known stays
      const std::scoped_lock lock(mutex);
      list.clear();
    }
    clock.advance_ms(120'000);
    client->timers().run_due();
    CHECK(eventually([&] { return count() == 3; }));
    CHECK(client->routes().name_servers() == std::vector<std::string>{"ns3:9876"});
  }

  TEST_CASE("a list that is given wins; no answer at the start is an error") {
    ClientOptions o;
    o.name_servers = "ns:9876";
    o.name_server_url = "not asked";
    FakeCluster cluster;
    CHECK(cluster.client(nullptr, o)->routes().name_servers().size() == 1);
    o.name_servers.clear();
    CHECK(Client::connect(o).error().is(Errc::kInvalidArgument));
    std::string url;
    {
      HttpAnswers server("HTTP/1.0 200 OK\r\n\r\n\r\n");  // an empty list
      url = server.url();
      o.name_server_url = url;
      const auto r = Client::connect(o);
      CHECK(r.error().is(Errc::kNoNameServer));
    }
    const auto r = Client::connect(o);
    CHECK(r.error().is(Errc::kNoNameServer));
    CHECK(r.error().remark.find("127.0.0.1") != std::string::npos);
  }

  TEST_CASE("the chosen name server stays chosen when the list grows") {
    NameServers names({"a:1", "b:1"}, 3);
    const std::string chosen = names.chosen();
    CHECK_FALSE(names.replace({"b:1", "a:1"}));
    CHECK(names.replace({"c:1", "b:1", "a:1", "d:1"}));
    CHECK(names.chosen() == chosen);
    CHECK(names.replace({"e:1"}));
    CHECK(names.chosen() == "e:1");
  }
}
