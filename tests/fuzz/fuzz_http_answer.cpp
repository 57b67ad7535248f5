// Answers of an HTTP end point that names the name servers, and its URL.
#include "name_server_url.h"

#include "tenon/base/check.h"

#include <cstdint>
#include <string_view>

using namespace tenon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto line = sdk::first_line_of_answer(text)) {
    TENON_CHECK(line->find('\n') == std::string::npos, "more than a line");
    TENON_CHECK(text.find(*line) != std::string_view::npos, "made up");
  }
  if (const auto url = sdk::parse_http_url(text)) {
    TENON_CHECK(!url->host.empty() && !url->port.empty(), "host or port missing");
    TENON_CHECK(url->path.starts_with('/'), "path without a beginning");
    TENON_CHECK(url->path.find_first_of(" \r\n") == std::string::npos, "a second request line");
  }
  return 0;
}
