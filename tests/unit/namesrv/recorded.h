// Frames recorded between official programs and the official name server (tests/data/namesrv).
#pragma once

#include "paths.h"

#include "tenon/proto/command.h"
#include "tenon/proto/json.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tenon::namesrv::test {

inline std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; };
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return out;
}

inline proto::Command decode(std::string frame) {
  proto::CommandView view;
  const auto r =
      proto::decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, view);
  return r ? proto::Command::from(view) : proto::Command{.code = -1};
}

struct Exchange {
  std::int64_t connection = 0;
  std::string step{};
  std::string request{};  ///< the frame
  std::string answer{};   ///< the frame, empty if there was none
  bool last_of_connection = false;
};

inline std::vector<Exchange> recorded(const std::string& file) {
  std::vector<Exchange> out;
  std::map<std::int64_t, std::size_t> last;
  std::ifstream in(tenon::test::data_dir() + "/namesrv/" + file);
  for (std::string line; std::getline(in, line);) {
    const auto document = proto::JsonDocument::parse(line).value();
    const proto::JsonNode row = document.root();
    Exchange& e = out.emplace_back();
    e.connection = row["connection"].integer().value_or(0);
    e.step = row["step"].string();
    e.request = from_hex(row["request"].string());
    e.answer = from_hex(row["answer"].string());
    last[e.connection] = out.size() - 1;
  }
  for (const auto& [connection, i] : last) {
    out[i].last_of_connection = true;
  }
  return out;
}

/// JSON with the elements of every array in order, so that lists of a hash table compare.
inline std::string normalized(std::string_view json) {
  const auto document = proto::JsonDocument::parse(json);
  if (!document) {
    return std::string(json);
  }
  std::string out;
  const auto write = [&out](const auto& self, proto::JsonNode node) -> void {
    if (node.is_object()) {
      std::map<std::string, proto::JsonNode> members;
      for (std::size_t i = 0; i < node.size(); ++i) {
        members.emplace(std::string(node.member(i).first), node.member(i).second);
      }
      out += '{';
      for (const auto& [key, value] : members) {
        out += key + ":";
        self(self, value);
        out += ',';
      }
      out += '}';
    } else if (node.is_array()) {
      std::vector<std::string> items;
      for (std::size_t i = 0; i < node.size(); ++i) {
        items.push_back(normalized(node.at(i).dump()));
      }
      std::sort(items.begin(), items.end());
      out += '[';
      for (const auto& item : items) {
        out += item + ",";
      }
      out += ']';
    } else {
      out += node.dump();
    }
  };
  write(write, document.value().root());
  return out;
}

}  // namespace tenon::namesrv::test
