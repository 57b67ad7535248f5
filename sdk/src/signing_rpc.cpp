#include "signing_rpc.h"

#include "tenon/base/check.h"
#include "tenon/proto/acl.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon::sdk::detail {
namespace {

/// One request: its fields, with those of the account, and its signature. The views point into
/// `frame_` and `account_`.
class Signed {
 public:
  Signed(const net::RpcEncoder& encode, Credentials account)
      : account_(std::move(account)) {
    encode(frame_, 0);
    const auto decoded =
        proto::decode_command({reinterpret_cast<std::byte*>(frame_.data()), frame_.size()}, view_);
    TENON_CHECK(decoded.has_value(), "a request of ours cannot be decoded");
    fields_.assign(view_.fields.begin(), view_.fields.end());
    fields_.push_back({proto::kAclAccessKey, account_.access_key});
    if (!account_.security_token.empty()) {
      fields_.push_back({proto::kAclSecurityToken, account_.security_token});
    }
    signature_ = proto::acl_signature(account_.secret_key, fields_, view_.body);
  }
  Signed(const Signed&) = delete;
  Signed& operator=(const Signed&) = delete;

  void encode(std::string& out, std::int32_t opaque) const {
    proto::FrameWriter::Head head;
    head.code = view_.code;
    head.opaque = opaque;
    head.flag = view_.flag;
    head.kind = view_.kind;
    head.language = view_.language;
    head.version = view_.version;
    head.remark = view_.remark;
    proto::FrameWriter w(out, head);
    for (const proto::Field& field : fields_) {
      w.field(field.key, field.value);
    }
    w.field(proto::kAclSignature, signature_);
    w.finish(view_.body);
  }

 private:
  const Credentials account_;
  std::string frame_{};
  proto::CommandView view_{};
  std::vector<proto::Field> fields_{};
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
            std::size_t lane) override {
    Credentials account = source_();
    if (account.empty()) {
      inner_->call(address, encode, timeout, std::move(done), lane);
      return;
    }
    const Signed request(encode, std::move(account));
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->call(address, std::cref(write), timeout, std::move(done), lane);
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
