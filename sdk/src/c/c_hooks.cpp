// C interface: hooks of producers and consumers.
#include "c/c_message.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::c {
namespace {

constexpr std::size_t kReasonRoom = 512;  ///< bytes

/// An attempt as C sees it: with zero bytes at the ends.
class ShownAttempt {
 public:
  explicit ShownAttempt(const SendAttempt& a)
      : texts_{std::string(a.group),
               std::string(a.topic),
               std::string(a.id),
               std::string(a.tag),
               std::string(a.keys),
               std::string(a.broker),
               std::string(a.address)} {
    out_.size = sizeof out_;
    out_.group = texts_[0].c_str();
    out_.topic = texts_[1].c_str();
    out_.id = texts_[2].c_str();
    out_.tag = texts_[3].c_str();
    out_.keys = texts_[4].c_str();
    out_.body = a.body.data();
    out_.body_length = a.body.size();
    out_.broker = texts_[5].c_str();
    out_.address = texts_[6].c_str();
    out_.queue_id = a.queue_id;
    out_.number = a.number;
    out_.oneway = a.oneway ? 1 : 0;
    out_.kind = static_cast<std::int32_t>(a.kind);
    out_.cost_ms = a.cost.count();
  }
  ShownAttempt(const ShownAttempt&) = delete;
  ShownAttempt& operator=(const ShownAttempt&) = delete;
  const tenon_send_attempt* get() const noexcept { return &out_; }

 private:
  const std::array<std::string, 7> texts_;
  tenon_send_attempt out_{};
};

/// One that the library has, or that for illegal arguments.
Errc code_of(std::int32_t answer) noexcept {
  const bool known = (answer >= TENON_CLIENT_INVALID_ARGUMENT && answer <= TENON_CLIENT_INTERNAL) ||
                     answer == TENON_CLIENT_MESSAGE_ILLEGAL ||
                     (answer >= TENON_CLIENT_CONNECT && answer <= TENON_CLIENT_CREATE_REPLY);
  return known ? static_cast<Errc>(answer) : Errc::kInvalidArgument;
}

Result<void> ask(const tenon_send_hook& to, const Message& message) {
  const Shown view(message);
  char reason[kReasonRoom] = {};
  const std::int32_t answer = to.check(to.arg, view.get(), reason, sizeof reason);
  if (answer == TENON_CLIENT_OK) {
    return {};
  }
  reason[sizeof reason - 1] = '\0';
  return Error{code_of(answer), -1, reason[0] == '\0' ? "refused by a hook" : reason};
}

/// A call as C sees it.
class ShownCall {
 public:
  explicit ShownCall(const ConsumeCall& call)
      : group_(call.group) {
    pointers_.resize(call.messages.size());
    std::transform(call.messages.begin(), call.messages.end(), pointers_.begin(), delivery);
    out_.size = sizeof out_;
    out_.group = group_.c_str();
    out_.queue = shown(call.queue);
    out_.messages = pointers_.data();
    out_.count = pointers_.size();
  }
  ShownCall(const ConsumeCall& call, const ConsumeResult& result)
      : ShownCall(call) {
    out_.done = result.done;
    out_.cost_ms = result.cost.count();
    out_.outcome = static_cast<std::int32_t>(result.outcome);
  }
  ShownCall(const ShownCall&) = delete;
  ShownCall& operator=(const ShownCall&) = delete;
  const tenon_consume_call* get() const noexcept { return &out_; }

 private:
  const std::string group_;
  std::vector<const tenon_delivery*> pointers_{};
  tenon_consume_call out_{};
};

}  // namespace

Result<void> add_hook(const tenon_send_hook* in, std::vector<SendHook>& out) {
  tenon_send_hook to;
  if (!adopt(in, to)) {
    return Error{Errc::kInvalidArgument, -1, "options.hook.size is wrong"};
  }
  SendHook hook;
  if (to.check != nullptr) {
    hook.check = [to](const Message& message) { return ask(to, message); };
  }
  if (to.before != nullptr) {
    hook.before = [to](const SendAttempt& attempt) {
      to.before(to.arg, ShownAttempt(attempt).get());
    };
  }
  if (to.after != nullptr) {
    hook.after = [to](const SendAttempt& attempt, const Result<Receipt>& result) {
      const ShownAttempt view(attempt);
      if (!result) {
        to.after(to.arg, view.get(), failed(result.error()), nullptr);
        return;
      }
      const tenon_receipt receipt = receipt_of(*result);
      to.after(to.arg, view.get(), TENON_CLIENT_OK, &receipt);
    };
  }
  if (in != nullptr) {
    out.push_back(std::move(hook));
  }
  return {};
}

Result<void> add_hook(const tenon_consume_hook* in, std::vector<ConsumeHook>& out) {
  tenon_consume_hook to;
  if (!adopt(in, to)) {
    return Error{Errc::kInvalidArgument, -1, "options.hook.size is wrong"};
  }
  ConsumeHook hook;
  if (to.wants != nullptr) {
    hook.wants = [to](const MessageView& m) { return to.wants(to.arg, delivery(m)) != 0; };
  }
  if (to.before != nullptr) {
    hook.before = [to](const ConsumeCall& call) { to.before(to.arg, ShownCall(call).get()); };
  }
  if (to.after != nullptr) {
    hook.after = [to](const ConsumeCall& call, const ConsumeResult& result) {
      to.after(to.arg, ShownCall(call, result).get());
    };
  }
  if (in != nullptr) {
    out.push_back(std::move(hook));
  }
  return {};
}

}  // namespace tenon::sdk::c
