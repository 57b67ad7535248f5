// Settings of topics in config/topics.json (spec: store §8).
#pragma once

#include "tenon/base/result.h"

#include <set>
#include <string>
#include <string_view>

namespace tenon::store_tool {

/// The settings of these topics as a JSON object by name; of those that the file knows.
Result<std::string> topic_settings(const std::string& root, const std::set<std::string>& topics);

/// Adds the settings of these topics that `exported` (JSON with a member "topics") has and the file has
/// not. The old file is kept as .bak.
Result<> add_topic_settings(const std::string& root,
                            std::string_view exported,
                            const std::set<std::string>& topics);

}  // namespace tenon::store_tool
