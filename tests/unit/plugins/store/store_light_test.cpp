// Light queues: one record in several queues, by a property, through crashes and rebuilds (spec:
// store §21, broker §19.10). Offsets as the official 4.9.7 broker writes them: decimal, by commas.
#include "../../../support/store_harness.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" const tenon_entry tenon_entry_store_file;
extern "C" const tenon_entry tenon_entry_store_memory;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kQueues = "INNER_MULTI_DISPATCH";
constexpr std::string_view kOffsets = "INNER_MULTI_QUEUE_OFFSET";

/// A folder that is opened again and again.
class Life {
 public:
  explicit Life(bool file = true, bool on = true)
      : file_(file),
        on_(on) {
    open();
  }

  void open() {
    store_.reset();
    host_ = std::make_unique<FakeHost>(folder_->path());
    if (file_) {
      host_->set("commitlog_file", 8192);
      host_->set("queue_file_bytes", 200);
      host_->set("index_slots", 20);
      host_->set("index_items", 16);
    }
    if (on_) {
      host_->set("multi_dispatch", 1);
    }
    if (max_ != 0) {
      host_->set("light_queues_max", max_);
    }
    store_ =
        std::make_unique<StoreInstance>(file_ ? tenon_entry_store_file : tenon_entry_store_memory,
                                        file_ ? "tenon.store.file" : "tenon.store.memory",
                                        *host_);
    REQUIRE_MESSAGE(store_->start() == TENON_OK, store_->error());
  }
  /// What a killed process leaves; the store goes.
  void crash() {
    auto image = std::make_unique<TempFolder>();
    fs::copy(folder_->path(), image->path(), fs::copy_options::recursive);
    store_.reset();
    folder_ = std::move(image);
  }
  void stop() { store_.reset(); }
  void set_max(std::int64_t max) { max_ = max; }
  void set_on(bool on) { on_ = on; }

  tenon_append_result put(std::string queues,
                          std::string topic = "TopicTest",
                          std::string body = "b") {
    Message m;
    m.topic = std::move(topic);
    m.body = std::move(body);
    m.properties = properties_of({{"TAGS", "t"}, {kQueues, queues}});
    return store_->append(m);
  }
  std::string text_at(std::uint64_t phys) {
    const std::string bytes = store_->message_at(phys);
    const auto m = proto::decode_message(std::as_bytes(std::span(bytes)));
    REQUIRE(m.has_value());
    return std::string(m.value().properties);
  }
  std::string offsets_at(std::uint64_t phys) {
    return std::string(proto::find_property(text_at(phys), kOffsets).value_or("none"));
  }
  std::vector<std::uint64_t> light(std::string_view name) {
    std::vector<std::uint64_t> all;
    for (const Entry& e : store_->entries(name, 0, 0)) {
      all.push_back(e.phys);
    }
    return all;
  }
  StoreInstance& store() { return *store_; }
  FakeHost& host() { return *host_; }
  const fs::path& root() const { return folder_->path(); }

 private:
  bool file_;
  bool on_;
  std::int64_t max_ = 0;
  std::unique_ptr<TempFolder> folder_ = std::make_unique<TempFolder>();
  std::unique_ptr<FakeHost> host_{};
  std::unique_ptr<StoreInstance> store_{};
};

using Positions = std::vector<std::uint64_t>;

}  // namespace

TEST_SUITE("store/light") {
  TEST_CASE("a message is stored once and enters the light queues that it names") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    const auto one = life.put("%LMQ%a,%LMQ%b");
    const auto two = life.put("%LMQ%b");
    const auto three = life.put("%LMQ%b,%LMQ%a,%LMQ%c");
    REQUIRE(one.status == TENON_OK);
    REQUIRE(three.status == TENON_OK);
    CHECK(life.offsets_at(one.phys) == "0,0");
    CHECK(life.offsets_at(two.phys) == "1");
    CHECK(life.offsets_at(three.phys) == "2,1,0");
    CHECK(life.light("%LMQ%a") == Positions{one.phys, three.phys});
    CHECK(life.light("%LMQ%b") == Positions{one.phys, two.phys, three.phys});
    CHECK(life.light("%LMQ%c") == Positions{three.phys});
    CHECK(life.light("TopicTest") == Positions{one.phys, two.phys, three.phys});
    const Entry own = life.store().entries("TopicTest", 0, 0).at(2);
    const Entry light = life.store().entries("%LMQ%c", 0, 0).at(0);
    CHECK(light.bytes == own.bytes);
    CHECK(light.tags_code == own.tags_code);
    CHECK(one.bytes + two.bytes + three.bytes == life.store().log().end);
  }

  TEST_CASE("the host is told about each light queue") {
    // broker §8.5: a parked pull of a light queue wakes up.
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    const auto put = life.put("%LMQ%a,%LMQ%b");
    const auto all = life.host().arrivals();
    REQUIRE(all.size() == 3);
    CHECK(all[0].topic == "TopicTest");
    CHECK(all[1].topic == "%LMQ%a");
    CHECK(all[2].topic == "%LMQ%b");
    CHECK(all[2].phys == put.phys);
    CHECK(all[2].properties == life.text_at(put.phys));
  }

  TEST_CASE("offsets that a client made up count for nothing") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    Message m;
    m.properties = properties_of({{kOffsets, "77"}, {kQueues, "%LMQ%a"}, {"k", "v"}}) + '\x02';
    const auto put = life.store().append(m);
    CHECK(life.text_at(put.phys) ==
          properties_of({{kQueues, "%LMQ%a"}, {"k", "v"}, {kOffsets, "0"}}));
    m.properties = properties_of({{"k", "v"}, {kOffsets, "77"}});
    CHECK(life.text_at(life.store().append(m).phys) == properties_of({{"k", "v"}}) + '\x02');
    CHECK(life.light("%LMQ%a") == Positions{put.phys});
  }

  TEST_CASE("what waits or comes again does not enter") {
    // Trap: 4.9 shows a half and a delayed message in light queues before their time.
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    for (const char* topic : {"SCHEDULE_TOPIC_XXXX",
                              "RMQ_SYS_TRANS_HALF_TOPIC",
                              "rmq_sys_wheel_timer",
                              "%RETRY%g",
                              "%DLQ%g"}) {
      CAPTURE(topic);
      const auto put = life.put("%LMQ%a", topic);
      REQUIRE(put.status == TENON_OK);
      CHECK(life.offsets_at(put.phys) == "none");
    }
    CHECK(life.light("%LMQ%a").empty());
    const auto put = life.put("%LMQ%a");
    CHECK(life.offsets_at(put.phys) == "0");
  }

  TEST_CASE("other names, names twice and empty ones") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    for (const char* names : {"other", "%LMQ%a,other", "%LMQ%a,,%LMQ%b", "%LMQ%", "%LMQ%x/y"}) {
      CAPTURE(names);
      const auto put = life.put(names);
      REQUIRE(put.status == TENON_OK);
      CHECK(life.offsets_at(put.phys) == "none");
    }
    CHECK(life.light("%LMQ%a").empty());
    const auto twice = life.put("%LMQ%a,%LMQ%a,");
    CHECK(life.offsets_at(twice.phys) == "0,0");
    const auto next = life.put("%LMQ%a");
    CHECK(life.offsets_at(next.phys) == "1");
    CHECK(life.light("%LMQ%a") == Positions{twice.phys, next.phys});
  }

  TEST_CASE("without the option the text is stored as it came") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file, false);
    Message m;
    m.properties = properties_of({{kQueues, "%LMQ%a"}, {kOffsets, "5"}});
    const auto put = life.store().append(m);
    CHECK(life.text_at(put.phys) == m.properties);
    CHECK(life.light("%LMQ%a").empty());
  }

  TEST_CASE("beyond the limit messages are stored without new light queues") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    life.set_max(2);
    life.open();
    REQUIRE(life.put("%LMQ%a,%LMQ%b").status == TENON_OK);
    const auto third = life.put("%LMQ%a,%LMQ%c");
    CHECK(third.status == TENON_OK);
    CHECK(life.offsets_at(third.phys) == "none");
    CHECK(life.light("%LMQ%a").size() == 1);
    const auto known = life.put("%LMQ%a");
    CHECK(life.offsets_at(known.phys) == "1");
  }

  TEST_CASE("a batch whose messages claim offsets is refused") {
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    proto::MessageRecord inner;
    inner.topic = "TopicTest";
    const std::string claims = properties_of({{kQueues, "%LMQ%a"}, {kOffsets, "5"}});
    inner.properties = claims;
    std::vector<std::byte> body(proto::encoded_message_bytes(inner));
    proto::encode_message(inner, body.data());
    Message m;
    m.body.assign(reinterpret_cast<const char*>(body.data()), body.size());
    m.flags = TENON_RECORD_BATCH;
    CHECK(life.store().append(m).status == TENON_INVALID);
    CHECK(life.store().log().end == 0);
  }

  TEST_CASE("light queues outlive stops, crashes and the loss of all queue files") {
    Life life;
    Positions a;
    Positions b;
    for (int i = 0; i < 60; ++i) {  // over ends of log files and of queue files
      const auto put =
          life.put(i % 2 == 0 ? "%LMQ%a,%LMQ%b" : "%LMQ%b", "TopicTest", std::string(150, 'x'));
      REQUIRE(put.status == TENON_OK);
      b.push_back(put.phys);
      if (i % 2 == 0) {
        a.push_back(put.phys);
      }
    }
    SUBCASE("stop") {
      life.stop();
    }
    SUBCASE("crash") {
      life.crash();
    }
    SUBCASE("files gone after a stop") {
      life.stop();
      fs::remove_all(life.root() / "consumequeue");
    }
    SUBCASE("files gone after a crash") {
      life.crash();
      fs::remove_all(life.root() / "consumequeue");
    }
    life.open();
    CHECK(life.light("%LMQ%a") == a);
    CHECK(life.light("%LMQ%b") == b);
    CHECK(life.light("TopicTest").size() == 60);
    const auto put = life.put("%LMQ%a,%LMQ%b");
    CHECK(life.offsets_at(put.phys) == "30,60");
    life.crash();
    life.open();
    a.push_back(put.phys);
    CHECK(life.light("%LMQ%a") == a);
    CHECK(life.light("%LMQ%b").size() == 61);
  }

  TEST_CASE("a folder without the option keeps what was in light queues") {
    Life life;
    const auto one = life.put("%LMQ%a");
    life.stop();
    life.set_on(false);
    life.open();
    CHECK(life.light("%LMQ%a") == Positions{one.phys});
    REQUIRE(life.put("%LMQ%a").status == TENON_OK);
    CHECK(life.light("%LMQ%a") == Positions{one.phys});
    life.stop();
    life.set_on(true);
    life.open();
    const auto three = life.put("%LMQ%a");
    CHECK(life.offsets_at(three.phys) == "1");
    CHECK(life.light("%LMQ%a") == Positions{one.phys, three.phys});
  }

  TEST_CASE("a torn end takes its units out of light queues too") {
    Life life;
    const auto one = life.put("%LMQ%a");
    const auto two = life.put("%LMQ%a");
    REQUIRE(life.store().table().truncate(life.store().self(), two.phys, 0, nullptr) == TENON_OK);
    CHECK(life.light("%LMQ%a") == Positions{one.phys});
    const auto again = life.put("%LMQ%a");
    CHECK(life.offsets_at(again.phys) == "1");
  }

  TEST_CASE("cleaning unused topics keeps light queues") {
    // broker §15.3: they have no topic.
    bool file = true;
    SUBCASE("file") {}
    SUBCASE("memory") {
      file = false;
    }
    Life life(file);
    const auto put = life.put("%LMQ%a");
    std::uint32_t dropped = 0;
    REQUIRE(life.store().table().drop_topics(life.store().self(), nullptr, 0, &dropped, nullptr) ==
            TENON_OK);
    CHECK(dropped == 1);
    CHECK(life.light("%LMQ%a") == Positions{put.phys});
  }
}

}  // namespace tenon::test
