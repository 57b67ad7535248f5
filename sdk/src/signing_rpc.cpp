#include "signing_rpc.h"

#include "decoded_request.h"

#include "tenon/proto/acl.h"

#include <string>
#include <utility>

namespace tenon::sdk::detail {
namespace {

/// One request with the fields of the account and its signature.
class Signed {
 public:
  Signed(const net::RpcEncoder& encode, Credentials account)
      : account_(std::move(account)),
        request_(encode) {
    request_.add(proto::kAclAccessKey, account_.access_key);
    if (!account_.security_token.empty()) {
      request_.add(proto::kAclSecurityToken, account_.security_token);
    }
    signature_ = proto::acl_signature(account_.secret_key, request_.fields(), request_.view().body);
    request_.add(proto::kAclSignature, signature_);
  }
  void encode(std::string& out, std::int32_t opaque) const { request_.encode(out, opaque); }

 private:
  const Credentials account_;
  DecodedRequest request_;
  std::string signature_{};
};

class SigningRpc final : public net::RpcClient {
 public:
  SigningRpc(std::unique_ptr<net::RpcClient> inner, CredentialsSource source)
      : inner_(std::move(inner)),
        source_(std::move(source)) {}

  void call(std::string_view address,
            const net::RpcEncoder& encode,
            std::chrono::milliseconds timeout,
            net::RpcCallback done,
            std::size_t lane,
            std::chrono::milliseconds connect_wait) override {
    Credentials account = source_();
    if (account.empty()) {
      inner_->call(address, encode, timeout, std::move(done), lane, connect_wait);
      return;
    }
    const Signed request(encode, std::move(account));
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->call(address, std::cref(write), timeout, std::move(done), lane, connect_wait);
  }

  void oneway(std::string_view address, const net::RpcEncoder& encode, std::size_t lane) override {
    Credentials account = source_();
    if (account.empty()) {
      inner_->oneway(address, encode, lane);
      return;
    }
    const Signed request(encode, std::move(account));
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->oneway(address, std::cref(write), lane);
  }

  void oneway_within(std::string_view address,
                     const net::RpcEncoder& encode,
                     std::chrono::milliseconds connect_wait,
                     net::RpcCallback done,
                     std::size_t lane) override {
    Credentials account = source_();
    if (account.empty()) {
      inner_->oneway_within(address, encode, connect_wait, std::move(done), lane);
      return;
    }
    const Signed request(encode, std::move(account));
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->oneway_within(address, std::cref(write), connect_wait, std::move(done), lane);
  }

  void disconnect(std::string_view address) override { inner_->disconnect(address); }
  void stop() override { inner_->stop(); }

 private:
  const std::unique_ptr<net::RpcClient> inner_;
  const CredentialsSource source_;
};

}  // namespace

std::unique_ptr<net::RpcClient> sign_requests(std::unique_ptr<net::RpcClient> inner,
                                              CredentialsSource source) {
  return std::make_unique<SigningRpc>(std::move(inner), std::move(source));
}

}  // namespace tenon::sdk::detail
