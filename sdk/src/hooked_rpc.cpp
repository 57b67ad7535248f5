#include "hooked_rpc.h"

#include "decoded_request.h"
#include "errors.h"
#include "guarded_hook.h"

#include "tenon/base/endian.h"
#include "tenon/base/log.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace tenon::sdk {
namespace {

std::optional<std::string_view> find(std::span<const RpcField> fields,
                                     std::string_view name) noexcept {
  const auto it =
      std::find_if(fields.begin(), fields.end(), [&](const RpcField& f) { return f.name == name; });
  return it == fields.end() ? std::nullopt : std::optional(it->value);
}

}  // namespace

std::optional<std::string_view> RpcRequest::field(std::string_view name) const noexcept {
  return find(fields, name);
}
std::optional<std::string_view> RpcResponse::field(std::string_view name) const noexcept {
  return find(fields, name);
}

namespace detail {
namespace {

constexpr std::string_view kRequestType = "ReqT";
constexpr std::string_view kStream = "0";
constexpr std::size_t kNameMax = 32'767;  ///< bytes; its length is a signed 16-bit number

std::vector<RpcField> shown(std::span<const proto::Field> fields) {
  std::vector<RpcField> out;
  out.reserve(fields.size());
  for (const proto::Field& f : fields) {
    out.push_back({f.key, f.value});
  }
  return out;
}

/// A request with what hooks have added; lives until its answer was seen.
class HookedRequest {
 public:
  HookedRequest(std::string_view address, const net::RpcEncoder& encode, bool stream)
      : request_(encode),
        address_(address) {
    if (stream) {
      request_.add(kRequestType, kStream);
    }
    look();
  }
  HookedRequest(const HookedRequest&) = delete;
  HookedRequest& operator=(const HookedRequest&) = delete;

  const RpcRequest& seen() const noexcept { return seen_; }
  void encode(std::string& out, std::int32_t opaque) const { request_.encode(out, opaque); }
  void add(std::map<std::string, std::string>&& fields) {
    for (auto& [name, value] : fields) {
      if (name.empty() || name.size() > kNameMax || seen_.field(name)) {
        continue;
      }
      const std::string& kept_name = kept_.emplace_back(name);
      request_.add(kept_name, kept_.emplace_back(std::move(value)));
    }
    look();
  }

 private:
  void look() {
    fields_ = shown(request_.fields());
    seen_ = {address_,
             request_.view().code,
             request_.view().is_oneway(),
             fields_,
             as_text(request_.view().body)};
  }

  DecodedRequest request_;
  const std::string address_;
  std::deque<std::string> kept_{};  ///< what added fields point to
  std::vector<RpcField> fields_{};
  RpcRequest seen_{};
};

class HookedRpc final : public net::RpcClient {
 public:
  HookedRpc(std::unique_ptr<net::RpcClient> inner,
            std::vector<RpcHook> hooks,
            bool stream,
            const Clock& clock)
      : inner_(std::move(inner)),
        hooks_(std::make_shared<const std::vector<RpcHook>>(std::move(hooks))),
        stream_(stream),
        clock_(clock) {}

  void call(std::string_view address,
            const net::RpcEncoder& encode,
            std::chrono::milliseconds timeout,
            net::RpcCallback done,
            std::size_t lane,
            std::chrono::milliseconds connect_wait) override {
    const auto request = before(address, encode);
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request->encode(out, opaque);
    };
    if (std::none_of(hooks_->begin(), hooks_->end(), [](const RpcHook& h) { return !!h.after; })) {
      inner_->call(address, std::cref(write), timeout, std::move(done), lane, connect_wait);
      return;
    }
    inner_->call(
        address,
        std::cref(write),
        timeout,
        [request,
         hooks = hooks_,
         clock = &clock_,
         begin = clock_.mono_ns(),
         done = std::move(done)](tenon::Result<net::RpcAnswer> answer) {
          const std::chrono::milliseconds cost((clock->mono_ns() - begin) / 1'000'000);
          after(*hooks, request->seen(), answer, cost);
          done(std::move(answer));
        },
        lane,
        connect_wait);
  }
  void oneway(std::string_view address, const net::RpcEncoder& encode, std::size_t lane) override {
    const auto request = before(address, encode);
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request->encode(out, opaque);
    };
    inner_->oneway(address, std::cref(write), lane);
  }
  void oneway_within(std::string_view address,
                     const net::RpcEncoder& encode,
                     std::chrono::milliseconds connect_wait,
                     net::RpcCallback done,
                     std::size_t lane) override {
    const auto request = before(address, encode);
    const auto write = [&request](std::string& out, std::int32_t opaque) {
      request->encode(out, opaque);
    };
    inner_->oneway_within(address, std::cref(write), connect_wait, std::move(done), lane);
  }
  void disconnect(std::string_view address) override { inner_->disconnect(address); }
  void stop() override { inner_->stop(); }

 private:
  std::shared_ptr<HookedRequest> before(std::string_view address, const net::RpcEncoder& encode) {
    auto request = std::make_shared<HookedRequest>(address, encode, stream_);
    for (const RpcHook& hook : *hooks_) {
      if (hook.before) {
        std::map<std::string, std::string> added;
        guarded_hook([&] { hook.before(request->seen(), added); });
        request->add(std::move(added));
      }
    }
    return request;
  }

  static void after(const std::vector<RpcHook>& hooks,
                    const RpcRequest& request,
                    const tenon::Result<net::RpcAnswer>& answer,
                    std::chrono::milliseconds cost) {
    std::vector<RpcField> fields;
    Result<RpcResponse> response = RpcResponse();
    if (answer.has_error()) {
      response = from_call(answer.error(), request.address);
    } else {
      const proto::CommandView& command = *answer.value().command;
      fields = shown({command.fields.begin(), command.fields.end()});
      *response = {command.code, command.remark, fields, as_text(command.body)};
    }
    for (const RpcHook& hook : hooks) {
      if (hook.after) {
        guarded_hook([&] { hook.after(request, response, cost); });
      }
    }
  }

  const std::unique_ptr<net::RpcClient> inner_;
  const std::shared_ptr<const std::vector<RpcHook>> hooks_;
  const bool stream_;
  const Clock& clock_;
};

}  // namespace

std::unique_ptr<net::RpcClient> hook_requests(std::unique_ptr<net::RpcClient> inner,
                                              std::vector<RpcHook> hooks,
                                              bool stream,
                                              const Clock& clock) {
  return std::make_unique<HookedRpc>(std::move(inner), std::move(hooks), stream, clock);
}

}  // namespace detail
}  // namespace tenon::sdk
