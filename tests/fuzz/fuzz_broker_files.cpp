// The JSON files that a broker reads at its start, each with its backup: whatever lies there, it starts
// or says why not; what it writes it reads again, and members that only others know stay.
//
// Input: a byte that chooses the file, then its text; behind a byte 0xff the text of its backup.
#include "delay/delay_service.h"
#include "meta/consumer_filters.h"
#include "meta/groups.h"
#include "meta/offsets.h"
#include "meta/topics.h"

#include "tenon/base/check.h"
#include "tenon/base/clock.h"
#include "tenon/proto/bodies_admin.h"
#include "tenon/proto/json.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <unistd.h>

using namespace tenon;
using namespace tenon::broker;

namespace {

namespace fs = std::filesystem;

/// In memory where that is possible: what is written is synced.
const fs::path& root() {
  static const fs::path path = [] {
    const fs::path shm = "/dev/shm";
    return (::access(shm.c_str(), W_OK) == 0 ? shm : fs::temp_directory_path()) /
           ("tenon-fuzz-" + std::to_string(::getpid()));
  }();
  return path;
}

/// Leaves nothing behind, however the run ends.
struct Cleanup {
  ~Cleanup() {
    std::error_code ec;
    fs::remove_all(root(), ec);
  }
};

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

BrokerConfig config() {
  BrokerConfig c;
  c.store_root = root();
  return c;
}

/// Members of the root that are not the broker's own, with their values.
std::set<std::pair<std::string, std::string>> others(std::string_view text,
                                                     const std::set<std::string_view>& own) {
  std::set<std::pair<std::string, std::string>> found;
  const auto document = proto::JsonDocument::parse(text);
  if (!document.has_value()) {
    return found;
  }
  const proto::JsonNode node = document.value().root();
  for (std::size_t i = 0; i < node.size() && node.is_object(); ++i) {
    const auto [name, value] = node.member(i);
    if (!own.contains(name)) {
      found.emplace(std::string(name), value.dump());
    }
  }
  return found;
}

struct File {
  const char* name;
  std::set<std::string_view> own;
  /// Loads, changes something, writes. @return what loading said
  Result<> (*use)();
};

Result<> use_topics() {
  const BrokerConfig c = config();
  Topics topics(c, system_clock());
  TENON_TRY(topics.load());
  proto::TopicConfig added;
  added.name = "Added";
  TENON_CHECK(topics.update(added).has_value(), "topics are not written");
  TENON_CHECK(topics.find("Added") != nullptr, "the topic is not there");
  return ok();
}

Result<> use_groups() {
  const BrokerConfig c = config();
  Groups groups(c, system_clock());
  TENON_TRY(groups.load());
  proto::SubscriptionGroupConfig added;
  added.name = "Added";
  TENON_CHECK(groups.update(added).has_value(), "groups are not written");
  return ok();
}

Result<> use_offsets() {
  Offsets offsets(root());
  TENON_TRY(offsets.load());
  offsets.commit("Added", "T", 0, offsets.query("Added", "T", 0) == 7 ? 8 : 7);
  TENON_CHECK(offsets.persist().has_value(), "offsets are not written");
  return ok();
}

Result<> use_filters() {
  const BrokerConfig c = config();
  const Filters filters;
  ConsumerFilters table(c, system_clock(), filters);
  TENON_TRY(table.load());
  TENON_CHECK(table.persist().has_value(), "filters are not written");
  return ok();
}

/// What the delay service does with its file, without a store.
Result<> use_delays() {
  const fs::path path = root() / "config" / "delayOffset.json";
  proto::DelayOffsetTable table;
  TENON_TRY(load_json_file(path, [&table](std::string_view text) -> Result<> {
    TENON_TRY(table, proto::decode_delay_offset_table(text));
    return ok();
  }));
  TENON_CHECK(save_json_file(path, proto::encode(table, true)).has_value(), "not written");
  return ok();
}

const std::array<File, 5>& files() {
  static const std::array<File, 5> all{
      File{"topics.json", {"topicConfigTable", "dataVersion"}, use_topics},
      File{"subscriptionGroup.json", {"subscriptionGroupTable", "dataVersion"}, use_groups},
      File{"consumerOffset.json", {"offsetTable"}, use_offsets},
      File{"delayOffset.json", {"offsetTable"}, use_delays},
      File{"consumerFilter.json", {}, use_filters}};
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const Cleanup cleanup;
  const File& file = files()[data[0] % files().size()];
  const std::string_view in(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t split = in.find('\xff');
  const std::string main_text(in.substr(0, split));
  const std::string bak_text(split == in.npos ? "" : in.substr(split + 1));
  const fs::path path = root() / "config" / file.name;
  const fs::path bak = path.string() + ".bak";
  fs::create_directories(path.parent_path());
  write_all(path, main_text);
  if (split != in.npos) {
    write_all(bak, bak_text);
  }
  const auto loaded = file.use();
  if (!loaded.has_value()) {
    TENON_CHECK(read_all(path) == main_text, "a refused file was changed");
    TENON_CHECK(split == in.npos || read_all(bak) == bak_text, "a refused backup was changed");
    return 0;
  }
  if (file.own.empty() || (main_text.empty() && bak_text.empty())) {
    return 0;
  }
  // The one of the two that was taken.
  const std::string written = read_all(path);
  const auto now = others(written, file.own);
  const auto of_main = others(main_text, file.own);
  const auto of_bak = others(bak_text, file.own);
  TENON_CHECK(now == of_main || now == of_bak, "members of others are lost: {}", written);
  TENON_CHECK(file.use().has_value(), "our own file is refused: {}", written);
  TENON_CHECK(others(read_all(path), file.own) == now, "members of others are lost");
  return 0;
}
