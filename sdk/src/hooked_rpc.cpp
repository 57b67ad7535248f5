#include "hooked_rpc.h"

#include "decoded_request.h"

#include <utility>

namespace tenon::sdk::detail {
namespace {

constexpr std::string_view kRequestType = "ReqT";
constexpr std::string_view kStream = "0";

class StreamRpc final : public net::RpcClient {
 public:
  explicit StreamRpc(std::unique_ptr<net::RpcClient> inner)
      : inner_(std::move(inner)) {}

  void call(std::string_view address,
            const net::RpcEncoder& encode,
            std::chrono::milliseconds timeout,
            net::RpcCallback done,
            std::size_t lane) override {
    DecodedRequest request(encode);
    request.add(kRequestType, kStream);
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->call(address, std::cref(write), timeout, std::move(done), lane);
  }
  void oneway(std::string_view address, const net::RpcEncoder& encode, std::size_t lane) override {
    DecodedRequest request(encode);
    request.add(kRequestType, kStream);
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request.encode(out, opaque);
    };
    inner_->oneway(address, std::cref(write), lane);
  }
  void disconnect(std::string_view address) override { inner_->disconnect(address); }
  void stop() override { inner_->stop(); }

 private:
  const std::unique_ptr<net::RpcClient> inner_;
};

}  // namespace

std::unique_ptr<net::RpcClient> mark_as_stream(std::unique_ptr<net::RpcClient> inner) {
  return std::make_unique<StreamRpc>(std::move(inner));
}

}  // namespace tenon::sdk::detail
