// Private parts of the command codec, one per header encoding.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/command.h"

#include <cstddef>
#include <span>

namespace tenon::proto::detail {

/// Fill everything but kind and body from the header bytes. `out` has been reset.
Result<> decode_json_header(std::span<std::byte> header, CommandView& out);
Result<> decode_binary_header(std::span<const std::byte> header, CommandView& out);

}  // namespace tenon::proto::detail
