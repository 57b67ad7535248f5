// Who the client is, towards brokers that control access.
#pragma once

#include "tenon/sdk/export.h"
#include "tenon/sdk/result.h"

#include <functional>
#include <string>

namespace tenon::sdk {

/// An account. Requests carry access_key and security_token and are signed with secret_key, which is
/// never sent.
struct Credentials {
  std::string access_key{};
  std::string secret_key{};
  std::string security_token{};  ///< of temporary accounts; mostly empty

  bool empty() const noexcept { return access_key.empty() && secret_key.empty(); }

  /// Reads a file with the keys accessKey, secretKey and securityToken, one a line: YAML
  /// (`accessKey: x`, as RocketMQ's tools.yml), properties or TOML (`accessKey = "x"`). Keys may
  /// begin with a capital letter; other keys and sections are ignored. Thread: any.
  /// @return kInvalidArgument if the file is not readable, or has no accessKey or no secretKey
  static TENON_SDK_API Result<Credentials> from_file(const std::string& path);

  /// TENON_ACCESS_KEY, TENON_SECRET_KEY and TENON_SECURITY_TOKEN, or the file that
  /// TENON_CREDENTIALS_FILE names. Empty if none of them is set. Thread: any, as long as nobody
  /// changes the environment.
  /// @return as from_file(); kInvalidArgument if only one of the two keys is set
  static TENON_SDK_API Result<Credentials> from_environment();
};

/// Gives the account for the next request, for accounts that expire. Called for every request, on
/// any thread, several at a time; must be quick. An empty one: not signed.
using CredentialsSource = std::function<Credentials()>;

}  // namespace tenon::sdk
