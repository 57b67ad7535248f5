#include "tenon/sdk/result.h"

#include "errors.h"

#include "tenon/sdk/message.h"

namespace tenon::sdk {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "tenon"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::kInvalidArgument:
        return "illegal argument";
      case Errc::kRefused:
        return "refused by the server";
      case Errc::kBusy:
        return "too many calls in flight";
      case Errc::kClosed:
        return "connection lost while the answer was awaited";
      case Errc::kCancelled:
        return "closed before the answer came";
      case Errc::kConflict:
        return "group is open already";
      case Errc::kNotFound:
        return "not found";
      case Errc::kBadAnswer:
        return "answer cannot be understood";
      case Errc::kUnsupported:
        return "not supported";
      case Errc::kInternal:
        return "internal error";
      case Errc::kMessageIllegal:
        return "message illegal";
      case Errc::kConnect:
        return "no connection";
      case Errc::kTimeout:
        return "no answer in time";
      case Errc::kBrokerNotExist:
        return "broker has no master in the route";
      case Errc::kNoNameServer:
        return "no name server";
      case Errc::kNoRoute:
        return "no route info of this topic";
      case Errc::kRequestTimeout:
        return "no reply in time";
      case Errc::kCreateReply:
        return "not a request";
    }
    return "unknown error";
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

std::string Error::text() const {
  std::string out = code.message();
  if (response >= 0) {
    out += " (" + std::to_string(response) + ")";
  }
  if (!broker.empty()) {
    out += ", " + broker;
  }
  if (!remark.empty()) {
    out += ": " + remark;
  }
  return out;
}

Error from_call(const tenon::Error& e, std::string_view broker) {
  switch (e.code) {
    case tenon::Errc::kTimeout: {
      Error out = make_error(Errc::kTimeout, e.detail, broker);
      out.outcome_unknown = true;
      return out;
    }
    case tenon::Errc::kClosed: {
      Error out = make_error(Errc::kClosed, e.detail, broker);
      out.outcome_unknown = true;
      return out;
    }
    case tenon::Errc::kCancelled: {
      Error out = make_error(Errc::kCancelled, e.detail, broker);
      out.outcome_unknown = true;
      return out;
    }
    case tenon::Errc::kNotReady:
    case tenon::Errc::kNotFound:
    case tenon::Errc::kIo:
      return make_error(Errc::kConnect, e.detail, broker);
    case tenon::Errc::kBusy:
      return make_error(Errc::kBusy, e.detail, broker);
    default:
      return make_error(Errc::kInternal, e.detail, broker);
  }
}

Error from_answer(std::int32_t code, std::string_view remark, std::string_view broker) {
  Error out = make_error(Errc::kRefused, std::string(remark), broker);
  out.response = code;
  return out;
}

Error from_base(const tenon::Error& e, Errc code) {
  return make_error(code, e.detail);
}

std::string_view to_string(SendStatus status) noexcept {
  switch (status) {
    case SendStatus::kOk:
      return "SEND_OK";
    case SendStatus::kFlushDiskTimeout:
      return "FLUSH_DISK_TIMEOUT";
    case SendStatus::kFlushSlaveTimeout:
      return "FLUSH_SLAVE_TIMEOUT";
    case SendStatus::kSlaveNotAvailable:
      return "SLAVE_NOT_AVAILABLE";
  }
  return "?";
}

}  // namespace tenon::sdk
