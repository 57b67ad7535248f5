// Errors as values: Result<T> is a value or an Error.
#pragma once

#include "tenon/sdk/export.h"

#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace tenon::sdk {

/// Why a call failed. Where RocketMQ's Java client has a code for it, the number is the same.
enum class Errc : int {
  kInvalidArgument = 1,     ///< an option, name or argument is illegal; nothing was sent
  kRefused = 2,             ///< the server answered with an error: see Error::response and remark
  kBusy = 3,                ///< too many calls in flight; nothing was sent
  kClosed = 4,              ///< the connection was lost while the answer was awaited
  kCancelled = 5,           ///< the object was closed
  kConflict = 6,            ///< the group is open already in this Client
  kNotFound = 7,            ///< no such message, topic, plug-in
  kBadAnswer = 8,           ///< the answer cannot be understood
  kUnsupported = 9,         ///< not offered by this build or this server
  kInternal = 10,           ///< a bug
  kMessageIllegal = 13,     ///< the message breaks a limit; nothing was sent
  kConnect = 10001,         ///< no connection to the broker; nothing was sent
  kTimeout = 10002,         ///< no answer in time
  kBrokerNotExist = 10003,  ///< the route names no master for the queue's broker
  kNoNameServer = 10004,    ///< no name server is configured or none can be reached
  kNoRoute = 10005,         ///< the topic has no route, nor has the topic it would be created from
  kRequestTimeout = 10006,  ///< the request was sent, nobody replied in time
  kCreateReply = 10007,     ///< the message is no request, so there is nothing to reply to
};

TENON_SDK_API const std::error_category& error_category() noexcept;
inline std::error_code make_error_code(Errc e) noexcept {
  return {static_cast<int>(e), error_category()};
}

/// A failure: the code for programs, the text for people.
struct Error {
  std::error_code code{};
  int response = -1;             ///< response code of the server, -1 if it did not answer
  std::string remark{};          ///< the server's remark, or what failed and why
  std::string broker{};          ///< name or address of the server concerned, if one was
  bool outcome_unknown = false;  ///< the request was written and may have been carried out: sending
                                 ///< again may duplicate

  bool is(Errc e) const noexcept { return code == make_error_code(e); }
  /// "no answer in time: broker-a: …"
  TENON_SDK_API std::string text() const;
};

/// Thrown by Result::value() for those who prefer exceptions; nothing else in the SDK throws.
class ResultError : public std::system_error {
 public:
  explicit ResultError(Error e)
      : std::system_error(e.code, e.text()),
        error_(std::move(e)) {}
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// Value or Error. Like std::expected, which C++20 does not have yet.
template <class T = void>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(T value)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error)  // NOLINT(google-explicit-constructor)
      : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// @throws ResultError
  T& value() & {
    check();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    check();
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    check();
    return std::move(*std::get_if<0>(&state_));
  }
  /// Undefined without a value, as usual.
  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }
  /// Undefined with a value.
  Error& error() & noexcept { return *std::get_if<1>(&state_); }
  const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
  Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

 private:
  void check() const {
    if (!has_value()) {
      throw ResultError(*std::get_if<1>(&state_));
    }
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;
  Result() noexcept = default;
  Result(Error error)  // NOLINT(google-explicit-constructor)
      : error_(std::move(error)) {}

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// @throws ResultError
  void value() const {
    if (error_) {
      throw ResultError(*error_);
    }
  }
  Error& error() & noexcept { return *error_; }
  const Error& error() const& noexcept { return *error_; }
  Error&& error() && noexcept { return std::move(*error_); }

 private:
  std::optional<Error> error_{};
};

}  // namespace tenon::sdk

template <>
struct std::is_error_code_enum<tenon::sdk::Errc> : std::true_type {};
