#include "layout_check.h"

#include <map>
#include <sstream>

namespace abi {
namespace {

struct Struct {
  std::size_t bytes = 0;
  std::vector<std::string> members{};  // "name offset size", in order
};

struct Layout {
  std::map<std::string, Struct> structs{};
  std::map<std::string, std::string> others{};  // constants, texts, signatures
};

Layout parse(std::string_view text) {
  Layout out;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    words >> kind >> name;
    std::string rest;
    std::getline(words, rest);
    if (kind == "struct") {
      out.structs[name].bytes = std::stoul(rest);
    } else if (kind == "member") {
      out.structs[name.substr(0, name.find('.'))].members.push_back(name + rest);
    } else if (!kind.empty()) {
      out.others[kind + " " + name] = rest;
    }
  }
  return out;
}

}  // namespace

Comparison compare_layouts(std::string_view before_text, std::string_view after_text) {
  const Layout before = parse(before_text);
  const Layout after = parse(after_text);
  Comparison result;
  bool broken = false;
  const auto differ = [&](bool breaks, std::string what) {
    broken = broken || breaks;
    result.differences.push_back(std::move(what));
  };
  for (const auto& [name, old] : before.structs) {
    const auto it = after.structs.find(name);
    if (it == after.structs.end()) {
      differ(true, "struct " + name + " was removed");
      continue;
    }
    const Struct& now = it->second;
    for (std::size_t i = 0; i < old.members.size(); ++i) {
      if (i >= now.members.size() || now.members[i] != old.members[i]) {
        differ(true,
               name + ": was " + old.members[i] + ", is " +
                   (i < now.members.size() ? now.members[i] : "gone"));
        break;
      }
    }
    if (now.members.size() > old.members.size()) {
      differ(false, name + ": appended " + now.members[old.members.size()]);
    }
    if (now.bytes != old.bytes) {
      differ(
          now.bytes < old.bytes,
          name + ": size was " + std::to_string(old.bytes) + ", is " + std::to_string(now.bytes));
    }
  }
  for (const auto& [name, value] : before.others) {
    const auto it = after.others.find(name);
    if (it == after.others.end() || it->second != value) {
      differ(true,
             name + ": was" + value + ", is" + (it == after.others.end() ? " gone" : it->second));
    }
  }
  for (const auto& [name, s] : after.structs) {
    if (!before.structs.contains(name)) {
      differ(false, "new struct " + name);
    }
  }
  for (const auto& [name, value] : after.others) {
    if (!before.others.contains(name)) {
      differ(false, "new " + name);
    }
  }
  result.verdict = broken                       ? Verdict::kBroken
                   : result.differences.empty() ? Verdict::kEqual
                                                : Verdict::kAppended;
  return result;
}

}  // namespace abi
