// Gives the shared library an object of its own; everything else comes from the static one.
#include "tenon/sdk/export.h"

namespace tenon::sdk::detail {
extern TENON_SDK_API const char kLibraryName[];
const char kLibraryName[] = "libtenon";
}  // namespace tenon::sdk::detail
