// The list of name servers from an HTTP end point (spec: client §1.4).
#pragma once

#include "tenon/sdk/result.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::sdk {

struct HttpUrl {
  std::string host{};
  std::string port{};  ///< "80" if the URL names none
  std::string path{};  ///< with the query; at least "/"
};

/// @return kInvalidArgument for anything but "http://host[:port][/path]"
Result<HttpUrl> parse_http_url(std::string_view url);

/// First line of the body of a whole HTTP answer, without blanks around it.
/// @return kBadAnswer if it is no HTTP answer, kRefused if its status is not 200
Result<std::string> first_line_of_answer(std::string_view answer);

/// The URL that Java clients of this unit ask.
std::string url_of_unit(std::string url, std::string_view unit_name);

/// Asks once, on a connection of its own. Blocks at most so long, but for the look-up of the host's
/// name, which has the time limits of the system. Thread: any.
/// @return kConnect, kTimeout, kBadAnswer or kRefused
Result<std::string> fetch_first_line(const std::string& url, std::chrono::milliseconds timeout);

}  // namespace tenon::sdk
