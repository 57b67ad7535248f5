// How connections are encrypted, and whom they trust.
#pragma once

#include <string>

namespace tenon::sdk {

/// TLS 1.2 or 1.3 towards name servers and brokers. Files are PEM. Off unless `enabled`.
struct TlsOptions {
  bool enabled = false;
  bool verify = true;      ///< false: any certificate is taken, as Java clients do by default
  std::string ca_file{};   ///< who may have signed the servers' certificates; empty: the system's
  bool check_name = true;  ///< the certificate must be for the host of the address; Java clients do
                           ///< not look. Brokers are addressed as their routes say, often by IP
  std::string server_name{};       ///< the certificate must be for this instead of the address
  std::string certificate_file{};  ///< of this client, with its chain, where servers ask for one
  std::string key_file{};          ///< of certificate_file
  std::string key_password{};
};

}  // namespace tenon::sdk
