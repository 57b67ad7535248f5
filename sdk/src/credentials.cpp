#include "tenon/sdk/credentials.h"

#include "errors.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace tenon::sdk {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

/// Without quotes, or up to a comment.
std::string_view value_of(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && (text.front() == '"' || text.front() == '\'')) {
    const std::size_t end = text.find(text.front(), 1);
    return end == std::string_view::npos ? text : text.substr(1, end - 1);
  }
  // A comment needs a blank in front: secrets may contain the character.
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '#' && std::isspace(static_cast<unsigned char>(text[i - 1])) != 0) {
      return trimmed(text.substr(0, i));
    }
  }
  return text;
}

std::string* member(Credentials& c, std::string_view key) {
  const auto is = [key](std::string_view small, std::string_view large) {
    return key == small || key == large;
  };
  return is("accessKey", "AccessKey")           ? &c.access_key
         : is("secretKey", "SecretKey")         ? &c.secret_key
         : is("securityToken", "SecurityToken") ? &c.security_token
                                                : nullptr;
}

std::string variable(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe) nobody changes the environment of a running program
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : text;
}

}  // namespace

Result<Credentials> Credentials::from_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return make_error(Errc::kInvalidArgument, "the credentials are not readable: " + path);
  }
  Credentials out;
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = trimmed(line);
    const std::size_t at = text.find_first_of(":=");
    if (text.empty() || text.front() == '#' || at == std::string_view::npos) {
      continue;
    }
    if (std::string* slot = member(out, trimmed(text.substr(0, at)))) {
      *slot = std::string(value_of(text.substr(at + 1)));
    }
  }
  if (out.access_key.empty() || out.secret_key.empty()) {
    return make_error(Errc::kInvalidArgument, "accessKey and secretKey are not both in " + path);
  }
  return out;
}

Result<Credentials> Credentials::from_environment() {
  Credentials out;
  out.access_key = variable("TENON_ACCESS_KEY");
  out.secret_key = variable("TENON_SECRET_KEY");
  out.security_token = variable("TENON_SECURITY_TOKEN");
  if (out.access_key.empty() != out.secret_key.empty()) {
    return make_error(Errc::kInvalidArgument,
                      "TENON_ACCESS_KEY and TENON_SECRET_KEY must both be set");
  }
  if (const std::string file = variable("TENON_CREDENTIALS_FILE"); out.empty() && !file.empty()) {
    return from_file(file);
  }
  return out;
}

}  // namespace tenon::sdk
