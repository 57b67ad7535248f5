// TLS of outgoing connections.
#pragma once

#include "tenon/base/result.h"

#include <memory>
#include <string>

namespace tenon::net {

/// Files are PEM.
struct TlsClientOptions {
  std::string ca_file{};      ///< who may have signed the server's certificate; empty: the system's
  bool verify = true;         ///< false: any certificate is taken
  bool check_name = true;     ///< the certificate must be for the host of the address
  std::string server_name{};  ///< that instead of the host of the address
  std::string certificate_file{};  ///< of the client, with its chain; empty: none
  std::string key_file{};          ///< of the client's certificate
  std::string key_password{};
};

/// What the connections of one RpcClient use. Immutable. Thread: any.
class TlsClient {
 public:
  /// @return kInvalid with the file and the reason
  static Result<std::shared_ptr<TlsClient>> create(const TlsClientOptions& options);
  virtual ~TlsClient() = default;
};

}  // namespace tenon::net
