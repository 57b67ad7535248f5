#include "tenon/logging/logging.h"

#include "levels.h"

#include <fmt/format.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <atomic>
#include <csignal>
#include <exception>
#include <mutex>

#include <pthread.h>

namespace tenon::logging {
namespace {

constexpr std::array<std::string_view, 7> kWords = {
    "trace", "debug", "info", "warn", "error", "critical", "off"};

constexpr const char* kPattern = "%Y-%m-%d %H:%M:%S.%e %^%l%$ %v [%s:%#]";

/// Last sink of the list. Every line is flushed, sink after sink, so that a flush here means that the lines so far have left all
/// others; that is what flush() waits for.
class DoneSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::uint64_t done() const { return done_.load(std::memory_order_acquire); }
  void wait_change(std::uint64_t seen) const { done_.wait(seen, std::memory_order_acquire); }

 protected:
  void sink_it_(const spdlog::details::log_msg&) override { ++seen_; }
  void flush_() override {
    done_.store(seen_, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::uint64_t seen_ = 0;  ///< the writer thread only
  std::atomic<std::uint64_t> done_{0};
};

void prepare_writer_thread() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "tenon-log");
}

class SpdlogLogging final : public Logging {
 public:
  SpdlogLogging(const LogOptions& options, std::vector<spdlog::sink_ptr> sinks)
      : queue_lines_(options.queue_lines),
        levels_(options.level),
        sinks_(std::move(sinks)),
        done_(std::make_shared<DoneSink>()) {
    for (const auto& [component, level] : options.levels) {
      levels_.set(component, level);
    }
    for (const spdlog::sink_ptr& sink : sinks_) {
      sink->set_pattern(kPattern);
    }
    sinks_.push_back(done_);
  }

  ~SpdlogLogging() override {
    if (started_) {
      if (const std::uint64_t lost = dropped_count()) {
        flush();
        write(LogLevel::kWarn,
              "log",
              fmt::format("lines dropped count={}", lost),
              std::source_location::current());
      }
      flush();
    }
    logger_.reset();
    pool_.reset();  // joins
  }

  bool enabled(LogLevel level, std::string_view component) noexcept override {
    return levels_.enabled(level, component);
  }

  void write(LogLevel level,
             std::string_view component,
             std::string_view text,
             const std::source_location& where) noexcept override {
    try {
      std::call_once(start_, [this] { start(); });
      posted_.fetch_add(1, std::memory_order_relaxed);
      logger_->log(spdlog::source_loc{where.file_name(), static_cast<int>(where.line()), ""},
                   static_cast<spdlog::level::level_enum>(level),
                   spdlog::string_view_t(fmt::format("{}: {}", component, text)));
    } catch (...) {  // a log line is never a reason to fail
    }
  }

  void set_level(std::string_view component, LogLevel level) override {
    levels_.set(component, level);
  }
  LogLevel level(std::string_view component) const override { return levels_.get(component); }

  std::uint64_t dropped_count() const override {
    return started_.load(std::memory_order_acquire) ? pool_->overrun_counter() : 0;
  }

  void flush() override {
    const std::uint64_t upto = posted_.load(std::memory_order_acquire);
    while (started_.load(std::memory_order_acquire)) {
      const std::uint64_t done = done_->done();
      if (done + dropped_count() >= upto) {
        break;
      }
      done_->wait_change(done);
    }
  }

 private:
  void start() {
    pool_ = std::make_shared<spdlog::details::thread_pool>(queue_lines_, 1, &prepare_writer_thread);
    logger_ = std::make_shared<spdlog::async_logger>("tenon",
                                                     sinks_.begin(),
                                                     sinks_.end(),
                                                     pool_,
                                                     spdlog::async_overflow_policy::overrun_oldest);
    logger_->set_level(spdlog::level::trace);  // the front-end has decided already
    logger_->flush_on(spdlog::level::trace);   // few lines, and the last one before a crash matters
    started_.store(true, std::memory_order_release);
  }

  const std::size_t queue_lines_;
  Levels levels_;
  std::vector<spdlog::sink_ptr> sinks_;
  std::shared_ptr<DoneSink> done_;
  std::once_flag start_;
  std::atomic<bool> started_{false};
  std::atomic<std::uint64_t> posted_{0};
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

}  // namespace

Result<std::unique_ptr<Logging>> Logging::create(const LogOptions& options) {
  if (options.queue_lines == 0 || options.file_max_bytes == 0) {
    return Error{Errc::kInvalid, "log queue and log file size must be above 0"};
  }
  try {
    std::vector<spdlog::sink_ptr> sinks;
    if (options.console) {
      sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    }
    if (!options.file.empty()) {
      sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
          options.file.string(), options.file_max_bytes, options.file_count));
    }
    return std::unique_ptr<Logging>(std::make_unique<SpdlogLogging>(options, std::move(sinks)));
  } catch (const std::exception& error) {
    return Error{Errc::kIo, fmt::format("log file {}: {}", options.file.string(), error.what())};
  }
}

std::optional<LogLevel> level_of(std::string_view word) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == word) {
      return static_cast<LogLevel>(i);
    }
  }
  return std::nullopt;
}

std::string_view to_string(LogLevel level) {
  return kWords[static_cast<std::size_t>(level)];
}

}  // namespace tenon::logging
