#include "tenon/sdk/client.h"

#include "client_core.h"

#include "tenon/base/log.h"

#include <mutex>

namespace tenon::sdk {
namespace {

/// Hands log lines to a function of the program.
class CallbackSink final : public LogSink {
 public:
  void set(std::function<void(LogLevel, std::string_view)> callback) {
    const std::scoped_lock lock(mutex_);
    callback_ = std::move(callback);
  }
  bool enabled(tenon::LogLevel, std::string_view) noexcept override { return true; }
  void write(tenon::LogLevel level,
             std::string_view component,
             std::string_view text,
             const SourceLocation&) noexcept override {
    try {
      std::function<void(LogLevel, std::string_view)> callback;
      {
        const std::scoped_lock lock(mutex_);
        callback = callback_;
      }
      if (callback) {
        std::string line(component);
        line += ": ";
        line += text;
        callback(level_of(level), line);
      }
    } catch (...) {  // a log function must not take the client down
      return;
    }
  }

 private:
  static LogLevel level_of(tenon::LogLevel level) noexcept {
    switch (level) {
      case tenon::LogLevel::kTrace:
      case tenon::LogLevel::kDebug:
        return LogLevel::kDebug;
      case tenon::LogLevel::kInfo:
        return LogLevel::kInfo;
      case tenon::LogLevel::kWarn:
        return LogLevel::kWarn;
      case tenon::LogLevel::kError:
      case tenon::LogLevel::kCritical:
      case tenon::LogLevel::kOff:
        break;
    }
    return LogLevel::kError;
  }
  std::mutex mutex_;
  std::function<void(LogLevel, std::string_view)> callback_;
};

}  // namespace

void set_log_callback(std::function<void(LogLevel, std::string_view text)> callback) {
  // Never destroyed: threads of clients that outlive main() may still log.
  static auto* const sink = new CallbackSink;
  const bool some = static_cast<bool>(callback);
  sink->set(std::move(callback));
  set_log_sink(some ? sink : nullptr);
}

Result<Client> Client::connect(ClientOptions options) {
  auto core = detail::ClientCore::create(std::move(options));
  if (!core) {
    return std::move(core).error();
  }
  return Client(std::move(*core));
}

Client::Client(std::shared_ptr<detail::ClientCore> core) noexcept
    : core_(std::move(core)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

std::string_view Client::id() const noexcept {
  return core_->id();
}

}  // namespace tenon::sdk
