// Bytes on disk and behaviour at the edges of tenon.store.file (spec: store §23, §26).
#include "../../../support/store_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

namespace fs = std::filesystem;
constexpr const char* kId = "tenon.store.file";

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[(static_cast<unsigned char>(c) >> 4) & 15];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string read_file(const std::string& path, std::uint64_t from, std::size_t n) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(from));
  std::string bytes(n, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(n));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return bytes;
}

std::string only_file(const std::string& folder) {
  std::string found;
  for (const auto& e : fs::directory_iterator(folder)) {
    found = found.empty() ? e.path().string() : "more than one file in " + folder;
  }
  return found;
}

/// A record of exactly `bytes` bytes: IPv4, topic TopicTest, no properties.
Message sized(std::size_t bytes) {
  Message m;
  m.body = std::string(bytes - 91 - m.topic.size(), 'b');
  return m;
}

}  // namespace

TEST_SUITE("store_file") {
  // store §26.1
  TEST_CASE("the worked example of the format is reproduced byte for byte") {
    TempFolder root;  // spec: store §23
    FakeHost host(root.path());
    host.fixed_wall_ms = 1'700'000'000'005;
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());

    Message first = sized(200);
    first.queue_id = 3;
    CHECK(store.append(first).phys == 0);
    Message m;
    m.queue_id = 3;
    m.body = "Hello RocketMQ";
    m.properties = properties_of({{"KEYS", "Aa BB"},
                                  {"UNIQ_KEY", "C0A801051E5818B4AAC2117A8B5E0000"},
                                  {"CLUSTER", "DefaultCluster"},
                                  {"TAGS", "TagA"}});
    const tenon_append_result r = store.append(m);
    CHECK(r.status == TENON_OK);
    CHECK(r.phys == 200);
    CHECK(r.bytes == 199);
    CHECK(r.queue_offset == 1);
    CHECK(r.store_ms == 1'700'000'000'005);
    CHECK(proto::offset_message_id(m.store_host, static_cast<std::int64_t>(r.phys)) ==
          "C0A8010500002A9F00000000000000C8");
    // Two keys with one hash on one chain: both answer, clients tell them apart.
    CHECK(store.query("TopicTest", "Aa") == std::vector<std::uint64_t>{200, 200});
    CHECK(store.query("TopicTest", "C0A801051E5818B4AAC2117A8B5E0000") ==
          std::vector<std::uint64_t>{200});
    store.stop();

    CHECK(hex(read_file(root / "commitlog/00000000000000000000", 200, 199)) ==
          "000000c7daa320a769c865ed0000000300000000000000000000000100000000000000c800000000"
          "0000018bcfe568000a0102030000d4310000018bcfe56805c0a8010500002a9f0000000000000000"
          "000000000000000e48656c6c6f20526f636b65744d5109546f7069635465737400554b4559530141"
          "61204242"
          "02554e49515f4b4559014330413830313035314535383138423441414332313137413842354530303030"
          "02434c55535445520144656661756c74436c75737465720254414753015461674"
          "1");
    CHECK(fs::file_size(root / "commitlog/00000000000000000000") == 1u << 30);
    const std::string queue_file = root / "consumequeue/TopicTest/3/00000000000000000000";
    CHECK(fs::file_size(queue_file) == 6'000'000);
    CHECK(hex(read_file(queue_file, 0, 60)) ==
          "0000000000000000000000c80000000000000000"
          "00000000000000c8000000c7000000000027a807"
          "0000000000000000000000000000000000000000");
    const std::string index = only_file(root / "index");
    CHECK(fs::file_size(index) == 420'000'040);
    CHECK(hex(read_file(index, 0, 40)) ==
          "0000018bcfe568050000018bcfe5680500000000000000c800000000000000c80000000200000004");
    CHECK(hex(read_file(index, 10'979'120, 4)) == "00000003");
    CHECK(hex(read_file(index, 15'746'660, 4)) == "00000001");
    CHECK(hex(read_file(index, 20'000'060, 60)) ==
          "76d90f0f00000000000000c80000000000000000"
          "0029e1c200000000000000c80000000000000000"
          "0029e1c200000000000000c80000000000000002");
    CHECK(!fs::exists(root / "abort"));
    CHECK(fs::file_size(root / "checkpoint") == 4096);
    CHECK(hex(read_file(root / "checkpoint", 0, 24)) ==
          "0000018bcfe568050000018bcfe568050000000000000000");
    CHECK(read_file(root / "lock", 0, 10) == "lock");
  }

  TEST_CASE("what was appended is read back, now and after a restart") {
    TempFolder root;
    FakeHost host(root.path());
    host.set("commitlog_file", 65536);
    host.set("queue_file_bytes", 2000);
    host.set("index_slots", 50);
    host.set("index_items", 100);
    {
      StoreInstance store(tenon_entry_store_file, kId, host);
      REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
      for (int i = 0; i < 1000; ++i) {
        Message m;
        m.queue_id = static_cast<std::uint32_t>(i % 3);
        m.body = "body " + std::to_string(i);
        m.properties = properties_of({{"KEYS", "k" + std::to_string(i)}, {"TAGS", "T"}});
        REQUIRE(store.append(m).status == TENON_OK);
      }
      CHECK(host.arrivals().size() == 1000);
      CHECK(store.query("TopicTest", "k777").size() == 1);
    }
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    CHECK(store.recovered().was_abnormal == 0);
    CHECK(store.recovered().cut_bytes == 0);
    for (int i = 0; i < 1000; ++i) {
      const auto all = store.entries("TopicTest", static_cast<std::uint32_t>(i % 3), i / 3);
      REQUIRE(!all.empty());
      const std::string record = store.fetch(all[0].phys, all[0].bytes);
      const auto m = proto::decode_message(as_bytes(record));
      REQUIRE(m.has_value());
      CHECK(as_text(m.value().body) == "body " + std::to_string(i));
      const auto hits = store.query("TopicTest", "k" + std::to_string(i));
      CHECK(std::find(hits.begin(), hits.end(), all[0].phys) != hits.end());
    }
    CHECK(store.append(Message{}).queue_offset == 334);
  }

  TEST_CASE("the store's encoder writes what the codec of the protocol writes") {
    TempFolder root;
    FakeHost host(root.path());
    StoreInstance store(tenon_entry_store_file, kId, host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    for (int i = 0; i < 64; ++i) {
      Message m;
      m.topic = std::string(static_cast<std::size_t>(1 + i), 't');
      m.queue_id = static_cast<std::uint32_t>(i);
      m.body = std::string(static_cast<std::size_t>(i * 37 % 900), 'b');
      m.properties = std::string(static_cast<std::size_t>(i * 53 % 700), 'p');
      m.flag = -i;
      m.born_host.v6 = i % 2 == 1;
      m.store_host.v6 = i % 3 == 1;
      const tenon_append_result r = store.append(m);
      proto::MessageRecord record;
      record.topic = m.topic;
      record.queue_id = i;
      record.flag = m.flag;
      record.queue_offset = r.queue_offset;
      record.phys_offset = static_cast<std::int64_t>(r.phys);
      record.born_ms = m.born_ms;
      record.born_host = m.born_host;
      record.store_ms = r.store_ms;
      record.store_host = m.store_host;
      record.body = as_bytes(m.body);
      record.properties = m.properties;
      std::string expected(proto::encoded_message_bytes(record), '\0');
      proto::encode_message(record, reinterpret_cast<std::byte*>(expected.data()));
      CHECK(hex(store.fetch(r.phys, r.bytes)) == hex(expected));
    }
  }
}

}  // namespace tenon::test
