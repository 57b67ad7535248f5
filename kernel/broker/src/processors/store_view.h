// Looks into the store for administration: times of entries, single records.
#pragma once

#include "services.h"

#include "tenon/abi/plugin.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon::broker {

/// Store time of a queue entry in epoch ms; 0 if there is none. Thread: worker.
std::int64_t time_of(const Services& s, tenon_queue queue, std::int64_t offset);

/// Offset of a time (-1: the end). 0 if the storage cannot tell. Thread: worker.
std::int64_t offset_by_time(const Services& s,
                            tenon_queue queue,
                            std::int64_t time_ms,
                            std::uint32_t boundary = TENON_BOUNDARY_NEAREST);

/// A copy of the record at a physical offset; nullopt if there is none. Thread: worker.
std::optional<std::string> record_at(const Services& s, std::int64_t phys_offset);

}  // namespace tenon::broker
