// tenon consume
#include "commands/context.h"

#include "tenon/sdk/push_consumer.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <span>

namespace tenon::app {
namespace {

struct ConsumeCommand {
  std::string topic{};
  std::string group = "tenon_cli_consumer";
  std::string filter = "*";
  std::string from = "first";
  std::string allocator{};
  std::string timeout{};
  std::uint64_t count = 0;
  bool broadcast = false;
  bool sql = false;
};

/// Prints what listener threads get, one message at a time, and says when there were enough.
class Printer {
 public:
  Printer(Context& context, std::uint64_t wanted)
      : context_(context),
        wanted_(wanted) {}

  sdk::Ack take(std::span<const sdk::MessageView> batch) {
    const std::scoped_lock lock(mutex_);
    std::size_t done = 0;
    for (const sdk::MessageView& message : batch) {
      if (wanted_ != 0 && seen_ == wanted_) {
        return sdk::Ack::partial(done);  // for whoever comes next
      }
      show(message);
      ++seen_;
      ++done;
    }
    if (wanted_ != 0 && seen_ == wanted_) {
      context_.stop.request("");
    }
    return sdk::Ack::success();
  }
  std::uint64_t seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  void show(const sdk::MessageView& message) {
    if (!context_.json) {
      print_line(message_line(message));
      return;
    }
    Json json;
    json.begin_object();
    message_json(json, message);
    print_line(json.end_object().text());
  }

  Context& context_;
  std::uint64_t wanted_;
  mutable std::mutex mutex_;
  std::uint64_t seen_ = 0;
};

int consume(Context& context, const ConsumeCommand& o) {
  sdk::ClientOptions client_options;
  if (o.broadcast) {
    client_options.instance_name = "tenon_cli";  // the local offset file is named by it
  }
  auto client = connect(context, client_options);
  if (!client) {
    return failed(context, client.error());
  }
  Printer printer(context, o.count);
  sdk::PushConsumerOptions options;
  options.group = o.group;
  options.subscriptions[o.topic] = {o.filter,
                                    o.sql ? sdk::FilterKind::kSql92 : sdk::FilterKind::kTag};
  if (o.from == "first") {
    options.start = sdk::FromFirst{};
  }
  options.mode = o.broadcast ? sdk::GroupMode::kBroadcasting : sdk::GroupMode::kClustering;
  options.allocator = o.allocator;
  options.threads = 1;  // printing in the order of each queue
  auto consumer =
      sdk::PushConsumer::concurrent(*client, options, [&](std::span<const sdk::MessageView> batch) {
        return printer.take(batch);
      });
  if (!consumer) {
    return failed(context, consumer.error());
  }
  std::optional<std::chrono::milliseconds> timeout;
  if (!o.timeout.empty()) {
    timeout = duration_of(o.timeout);
  }
  const bool stopped = context.stop.wait(timeout);
  consumer->pause();
  const auto closed = consumer->close();
  const std::uint64_t seen = printer.seen();
  if (!stopped && o.count != 0 && seen < o.count) {
    return failed(context, fmt::format("{} of {} messages within {}", seen, o.count, o.timeout));
  }
  if (!closed && !closed.error().is(sdk::Errc::kTimeout)) {
    return failed(context, closed.error());
  }
  return kExitOk;
}

}  // namespace

void add_consume(CLI::App& app, Context& context) {
  const auto o = std::make_shared<ConsumeCommand>();
  CLI::App* c = app.add_subcommand(
      "consume", "Join a consumer group and print messages until Ctrl-C (JSON: one object a line)");
  c->add_option("--topic,-t", o->topic, "Topic")->required();
  c->add_option("--group,-g", o->group, "Consumer group; its members share the queues")
      ->capture_default_str();
  c->add_option("--filter,-f", o->filter, "Which messages: \"TagA || TagB\"")
      ->capture_default_str();
  c->add_flag("--sql", o->sql, "The filter is SQL92 over properties");
  c->add_option("--from", o->from, "Where a new group starts: first or last message")
      ->capture_default_str()
      ->check(CLI::IsMember({"first", "last"}));
  c->add_flag("--broadcast", o->broadcast, "Every member gets every message");
  c->add_option("--allocator", o->allocator, "Plug-in that shares out the queues");
  c->add_option("--count,-n", o->count, "End after so many messages");
  c->add_option("--timeout", o->timeout, "End after this time; failure if --count was not reached")
      ->check(check_duration);
  c->callback([&context, o] { context.run = [&context, o] { return consume(context, *o); }; });
}

}  // namespace tenon::app
