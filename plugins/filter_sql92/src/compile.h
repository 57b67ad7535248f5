// From the text of an expression to its program (spec: broker §9.2 to §9.4).
#pragma once

#include "builder.h"
#include "program.h"

#include <string_view>

namespace tenon::filter_sql92 {

/// Which filter is imitated, in behaviour and in messages.
enum class Dialect {
  k4,  ///< RocketMQ 4.9
  k5,  ///< RocketMQ 5.x: CONTAINS, STARTSWITH, ENDSWITH
};

/// Time is linear in the text, depth bounded by the limits. Throws SyntaxError; a text beyond a
/// limit is one too. Thread: any.
Program compile(std::string_view text, Dialect dialect, const Limits& limits);

}  // namespace tenon::filter_sql92
