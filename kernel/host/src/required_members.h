// Interfaces that this host knows and the members that each of them must have (plug-in ABI §11.2 and others).
#pragma once

#include "tenon/base/result.h"

#include <cstddef>
#include <string_view>

namespace tenon::host {

bool knows_interface(std::string_view iid);

/// Checks an adopted table: its size, then each required member. Interfaces that the host does not know pass.
/// @return kInvalid "tenon.storage/1: member append is null"
Result<> check_required_members(std::string_view iid, const void* table, std::size_t table_bytes);

}  // namespace tenon::host
