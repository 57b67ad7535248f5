// What every store must be, whatever happened to it: queues without holes whose entries point at their
// records, every record in the log in its queue, every key in the index.
#pragma once

#include "../../../support/store_harness.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::test {

struct Audited {
  std::uint32_t queue_id = 0;
  std::int64_t offset = 0;
  std::uint64_t phys = 0;
  std::string body{};
  std::string key{};
};

/// All messages of a topic by their queues, in order of the log; problems are added as text.
struct Audit {
  std::vector<Audited> messages{};
  std::vector<std::string> problems{};
  std::vector<std::string> bodies() const;
};

/// Reads the whole store. With `keys`, every message's KEYS must be found in the index. Needs no
/// doctest, so that a child process can use it.
Audit audit_store(StoreInstance& store, std::string_view topic, std::uint32_t queues, bool keys);

}  // namespace tenon::test
