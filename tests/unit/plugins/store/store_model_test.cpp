// Both stores against a plain list of messages: random operations under a seed.
//
// TENON_SEED=<n> repeats a run, TENON_ROUNDS=<n> makes it longer.
#include "../../../support/seed.h"
#include "../../../support/store_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" const tenon_entry tenon_entry_store_file;
extern "C" const tenon_entry tenon_entry_store_memory;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;

struct Kept {
  std::string topic{};
  std::uint32_t queue_id = 0;
  std::int64_t offset = -1;  ///< -1: without a queue entry
  std::uint64_t phys = 0;
  std::uint32_t bytes = 0;
  std::int64_t tags_code = 0;
  std::int64_t store_ms = 0;
  std::string body{};
  std::string key{};
};

using QueueKey = std::pair<std::string, std::uint32_t>;

class Model {
 public:
  Model(const tenon_entry& entry, const char* id, bool on_disk, std::uint64_t seed)
      : entry_(entry),
        id_(id),
        on_disk_(on_disk),
        random_(seed),
        folder_(std::make_unique<TempFolder>()),
        host_(folder_->path()) {
    host_.set("commitlog_file", 8192);
    host_.set("queue_file_bytes", 160);
    host_.set("index_slots", 7);
    host_.set("index_items", 20);
    host_.set("segment", 8192);
    host_.set("memory_limit", 1 << 20);
    host_.fixed_wall_ms = now_;
    open();
  }

  void run(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      now_ += pick(0, 2500);
      host_.fixed_wall_ms = now_;
      step();
    }
    check_all();
    CHECK(host_.faulted() == TENON_OK);
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void open() {
    store_ = std::make_unique<StoreInstance>(entry_, id_, host_);
    REQUIRE_MESSAGE(store_->start() == TENON_OK, store_->error());
  }

  void step() {
    const int what = pick(0, 99);
    if (what < 45) {
      append_some();
    } else if (what < 60) {
      append_batch();
    } else if (what < 64) {
      append_illegal();
    } else if (what < 74) {
      check_queue(random_queue());
    } else if (what < 82) {
      check_key();
    } else if (what < 90) {
      check_times(random_queue());
    } else if (what < 92) {
      trim();
    } else if (on_disk_) {
      if (what < 94) {
        restart();
      } else if (what < 96) {
        crash();
      } else if (what < 98) {
        truncate();
      } else {
        append_behind_limit();
      }
    }
  }

  QueueKey random_queue() {
    return {"Topic" + std::to_string(pick(0, 2)), static_cast<std::uint32_t>(pick(0, 3))};
  }

  Message random_message(const QueueKey& queue) {
    Message m;
    m.topic = queue.first;
    m.queue_id = queue.second;
    m.body = std::string(static_cast<std::size_t>(pick(0, pick(0, 5) == 0 ? 3000 : 300)),
                         static_cast<char>(pick('a', 'z')));
    m.properties = properties_of(
        {{"KEYS", "k" + std::to_string(pick(0, 30))}, {"TAGS", "T" + std::to_string(pick(0, 3))}});
    if (pick(0, 9) == 0) {
      m.sys_flag = proto::sys_flag::kTransactionPrepared;
    }
    m.born_host.v6 = pick(0, 4) == 0;
    return m;
  }

  void keep(const Message& m, const tenon_append_result& r) {
    const bool has_entry = m.sys_flag == 0;
    if (!log_.empty()) {
      CHECK(r.phys >= log_.back().phys + log_.back().bytes);
    }
    CHECK(r.queue_offset == (has_entry ? next_[{m.topic, m.queue_id}] : 0));
    if (has_entry) {
      ++next_[{m.topic, m.queue_id}];
    }
    log_.push_back({m.topic,
                    m.queue_id,
                    has_entry ? r.queue_offset : -1,
                    r.phys,
                    r.bytes,
                    proto::tags_code_of(m.properties),
                    r.store_ms,
                    m.body,
                    std::string(*proto::find_property(m.properties, "KEYS"))});
  }

  void append_some() {
    std::vector<Message> all;
    for (int i = pick(1, 6); i > 0; --i) {
      all.push_back(random_message(random_queue()));
    }
    const auto results = store_->append(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      REQUIRE(results[i].status == TENON_OK);
      CHECK(results[i].store_ms == now_);
      keep(all[i], results[i]);
    }
  }

  void append_batch() {
    const QueueKey queue = random_queue();
    std::vector<Message> parts;
    std::string body;
    for (int i = pick(1, 8); i > 0; --i) {
      Message m = random_message(queue);
      m.sys_flag = 0;
      m.body.resize(std::min<std::size_t>(m.body.size(), 500));
      proto::MessageRecord record;
      record.topic = m.topic;
      record.queue_id = static_cast<std::int32_t>(m.queue_id);
      record.born_ms = m.born_ms;
      record.born_host = m.born_host;
      record.store_host = m.store_host;
      record.body = as_bytes(m.body);
      record.properties = m.properties;
      std::string bytes(proto::encoded_message_bytes(record), '\0');
      proto::encode_message(record, reinterpret_cast<std::byte*>(bytes.data()));
      body += bytes;
      parts.push_back(std::move(m));
    }
    Message whole;
    whole.topic = queue.first;
    whole.queue_id = queue.second;
    whole.body = body;
    whole.flags = TENON_RECORD_BATCH;
    std::vector<std::uint64_t> phys(parts.size());
    tenon_record r = to_record(whole);
    r.count = static_cast<std::uint32_t>(parts.size());
    r.inner_phys = phys.data();
    tenon_append_result result{};
    store_->table().append(store_->self(), &r, sizeof r, 1, &result, sizeof result, nullptr);
    REQUIRE(result.status == TENON_OK);
    CHECK(result.bytes == body.size());
    CHECK(result.phys / 8192 == (result.phys + result.bytes - 1) / 8192);  // all in one file
    for (std::size_t i = 0; i < parts.size(); ++i) {
      tenon_append_result one = result;
      one.phys = phys[i];
      one.queue_offset = result.queue_offset + static_cast<std::int64_t>(i);
      one.bytes = static_cast<std::uint32_t>(
          (i + 1 < parts.size() ? phys[i + 1] : result.phys + result.bytes) - phys[i]);
      keep(parts[i], one);
    }
  }

  void append_illegal() {
    const std::uint64_t end = store_->log().end;
    Message m = random_message(random_queue());
    switch (pick(0, 3)) {
      case 0:
        m.topic = "";
        break;
      case 1:
        m.topic = "../up";
        break;
      case 2:
        m.body = std::string(9000, 'x');
        break;
      default:
        m.properties = std::string(32768, 'p');
    }
    const tenon_append_result r = store_->append(m);
    CHECK((r.status == TENON_INVALID || r.status == TENON_LIMIT));
    CHECK(!store_->error().empty());
    CHECK(store_->log().end == end);
  }

  std::int64_t min_of(const QueueKey& queue) {
    const std::uint64_t log_min = store_->log().min_phys;
    for (const Kept& k : log_) {
      if (k.topic == queue.first && k.queue_id == queue.second && k.offset >= 0 &&
          k.phys >= log_min) {
        return k.offset;
      }
    }
    return next_[queue];
  }

  void check_queue(const QueueKey& queue) {
    const std::int64_t min = min_of(queue);
    const std::int64_t max = next_[queue];
    const Bounds bounds = store_->bounds(queue.first, queue.second);
    INFO("queue " << queue.first << "/" << queue.second);
    CHECK(bounds.min == min);
    CHECK(bounds.max == max);
    check_edges(queue, min, max);
    const auto entries = store_->entries(queue.first, queue.second, min);
    std::size_t i = 0;
    for (const Kept& k : log_) {
      if (k.topic != queue.first || k.queue_id != queue.second || k.offset < min) {
        continue;
      }
      REQUIRE(i < entries.size());
      CHECK(entries[i].offset == k.offset);
      CHECK(entries[i].phys == k.phys);
      CHECK(entries[i].bytes == k.bytes);
      CHECK(entries[i].tags_code == k.tags_code);
      check_record(k);
      ++i;
    }
    CHECK(i == entries.size());
  }

  void check_edges(const QueueKey& queue, std::int64_t min, std::int64_t max) {
    const tenon_queue q = store_->queue(queue.first, queue.second);
    if (q == 0) {
      CHECK(max == 0);
      return;
    }
    const auto read = [&](std::int64_t from) {
      tenon_index_entry entry{};
      std::size_t n = 0;
      std::int64_t next = 0;
      return store_->table().index_read(
          store_->self(), q, from, &entry, sizeof entry, 1, &n, &next, nullptr);
    };
    if (max == 0) {
      CHECK(read(0) == TENON_EMPTY);
      return;
    }
    CHECK(read(min - 1) == TENON_RANGE_LOW);
    CHECK(read(max) == TENON_RANGE_END);
    CHECK(read(max + 1) == TENON_RANGE_HIGH);
    if (min < max) {
      CHECK(read(min) == TENON_OK);
      CHECK(read(max - 1) == TENON_OK);
    }
  }

  void check_record(const Kept& k) {
    const std::string record = store_->fetch(k.phys, k.bytes);
    const auto m = proto::decode_message(as_bytes(record));
    REQUIRE(m.has_value());
    CHECK(m.value().topic == k.topic);
    CHECK(m.value().phys_offset == static_cast<std::int64_t>(k.phys));
    CHECK(m.value().queue_offset == std::max<std::int64_t>(k.offset, 0));
    CHECK(m.value().store_ms == k.store_ms);
    CHECK(as_text(m.value().body) == k.body);
    CHECK(store_->message_at(k.phys) == record);
  }

  void check_key() {
    const std::string topic = random_queue().first;
    const std::string key = "k" + std::to_string(pick(0, 30));
    const std::uint64_t log_min = store_->log().min_phys;
    std::set<std::uint64_t> expected;
    for (const Kept& k : log_) {
      if (k.topic == topic && k.key == key && k.phys >= log_min) {
        expected.insert(k.phys);
      }
    }
    const auto hits = store_->query(topic, key, 0, INT64_MAX, 1000);
    CHECK(std::set<std::uint64_t>(hits.begin(), hits.end()) == expected);
    CHECK(std::is_sorted(hits.rbegin(), hits.rend()));
  }

  void check_times(const QueueKey& queue) {
    const std::int64_t min = min_of(queue);
    const std::int64_t max = next_[queue];
    if (store_->queue(queue.first, queue.second) == 0) {
      return;
    }
    const std::int64_t ms = start_ + pick(0, static_cast<int>(now_ - start_) + 1000);
    std::int64_t lower = max;
    std::int64_t upper = min;
    for (const Kept& k : log_) {
      if (k.topic == queue.first && k.queue_id == queue.second && k.offset >= min) {
        CHECK(store_->time_of(queue.first, queue.second, k.offset) == k.store_ms);
        if (k.store_ms >= ms) {
          lower = std::min(lower, k.offset);
        } else {
          upper = k.offset;
        }
        if (k.store_ms == ms) {
          upper = k.offset;
        }
      }
    }
    if (min == max) {
      lower = upper = max;
    }
    CHECK(store_->offset_by_time(queue.first, queue.second, ms, TENON_BOUNDARY_LOWER) == lower);
    CHECK(store_->offset_by_time(queue.first, queue.second, ms, TENON_BOUNDARY_UPPER) == upper);
    const auto nearest = store_->offset_by_time(queue.first, queue.second, ms);
    REQUIRE(nearest.has_value());
    if (min < max) {
      CHECK(*nearest >= min);
      CHECK(*nearest < max);
    }
  }

  void trim() {
    tenon_retention p{};
    p.size = sizeof p;
    p.flags = TENON_RETENTION_MANUAL;
    p.now_ms = INT64_MAX / 2;
    p.max_files = static_cast<std::uint32_t>(pick(1, 2));
    tenon_retention_result r{};
    r.size = sizeof r;
    CHECK(store_->table().retention(store_->self(), &p, &r, nullptr) == TENON_OK);
    CHECK(r.files <= p.max_files);
    CHECK(r.min_phys == store_->log().min_phys);
  }

  void restart() {
    store_->stop();
    CHECK(!fs::exists(folder_->path() / "abort"));
    store_.reset();
    open();
    CHECK(store_->recovered().was_abnormal == 0);
    CHECK(store_->recovered().cut_bytes == 0);
    check_all();
  }

  /// What a killed process leaves: the files as they are, abort marker included.
  void crash() {
    auto copy = std::make_unique<TempFolder>();
    fs::copy(folder_->path(), copy->path(), fs::copy_options::recursive);
    store_.reset();
    folder_ = std::move(copy);
    host_.set_root(folder_->path());
    open();
    CHECK(store_->recovered().was_abnormal == 1);
    check_all();
  }

  void truncate() {
    if (log_.empty()) {
      return;
    }
    const std::uint64_t log_min = store_->log().min_phys;
    const auto at = static_cast<std::size_t>(pick(0, static_cast<int>(log_.size()) - 1));
    const std::uint64_t phys = log_[at].phys;
    if (phys < log_min || pick(0, 2) != 0) {
      return;
    }
    const auto flags = static_cast<std::uint32_t>(pick(0, 1));
    CHECK(store_->table().truncate(store_->self(), phys + 1, flags, nullptr) == TENON_CONFLICT);
    REQUIRE(store_->table().truncate(store_->self(), phys, flags, nullptr) == TENON_OK);
    const tenon_log_bounds bounds = store_->log();
    CHECK(bounds.end == phys);
    CHECK(bounds.dispatched == phys);
    log_.resize(at);
    // A queue without any unit left starts again where its next record says: at 0.
    std::map<QueueKey, std::int64_t> next;
    for (const Kept& k : log_) {
      if (k.offset >= 0) {
        next[{k.topic, k.queue_id}] = k.offset + 1;
      }
    }
    for (auto& [queue, offset] : next_) {
      offset = next.contains(queue) ? next[queue] : 0;
    }
    check_all();
  }

  void append_behind_limit() {
    const auto& table = store_->table();
    const std::uint64_t end = store_->log().end;
    REQUIRE(table.set_visible_limit(store_->self(), end) == TENON_OK);
    const auto before = next_;
    append_some();
    append_batch();
    for (const auto& [queue, max] : before) {
      CHECK(store_->bounds(queue.first, queue.second).max == max);
    }
    CHECK(store_->log().dispatched == end);
    table.set_visible_limit(store_->self(), TENON_NO_LIMIT);
    CHECK(host_.wait([&] { return store_->log().dispatched == store_->log().end; }));
    check_all();
  }

  void check_all() {
    for (const auto& [queue, max] : std::map(next_)) {
      check_queue(queue);
    }
    check_key();
    const tenon_log_bounds b = store_->log();
    CHECK(b.min_phys <= b.dispatched);
    CHECK(b.dispatched <= b.frame_end);
    CHECK(b.frame_end <= b.end);
    CHECK(b.durable <= b.end);
  }

  const tenon_entry& entry_;
  const char* id_;
  const bool on_disk_;
  std::mt19937_64 random_;
  const std::int64_t start_ = 1'700'000'000'000;
  std::int64_t now_ = start_;
  std::unique_ptr<TempFolder> folder_;
  FakeHost host_;
  std::unique_ptr<StoreInstance> store_;
  std::vector<Kept> log_{};
  std::map<QueueKey, std::int64_t> next_{};
};

}  // namespace

TEST_SUITE("store/model") {
  TEST_CASE("random operations answer as a plain list of messages does") {
    const int rounds = env_number("TENON_ROUNDS", 300);
    const std::uint64_t seed = seed_of_run();
    CAPTURE(seed);
    SUBCASE("file") {
      Model(tenon_entry_store_file, "tenon.store.file", true, seed).run(rounds);
    }
    SUBCASE("memory") {
      Model(tenon_entry_store_memory, "tenon.store.memory", false, seed).run(rounds);
    }
  }
}

}  // namespace tenon::test
