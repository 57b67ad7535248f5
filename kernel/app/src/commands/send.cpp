// tenon send
#include "commands/context.h"
#include "support/progress.h"

#include "tenon/sdk/producer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace tenon::app {
namespace {

struct SendCommand {
  std::string topic{};
  std::string body{};
  std::string file{};
  std::string tag{};
  std::vector<std::string> keys{};
  std::vector<std::string> properties{};
  std::string sharding_key{};
  std::string selector{};
  std::string group = "tenon_cli_producer";
  std::string timeout = "3s";
  int delay_level = 0;
  std::uint64_t count = 1;
};

/// The body: option, file, or standard input ("-").
bool load_body(SendCommand& o, std::string& problem) {
  if (o.file.empty()) {
    return true;
  }
  if (o.file == "-") {
    char chunk[4096];
    while (const std::size_t n = std::fread(chunk, 1, sizeof chunk, stdin)) {
      o.body.append(chunk, n);
    }
    return true;
  }
  std::ifstream in(o.file, std::ios::binary);
  if (!in) {
    problem = fmt::format("file {} cannot be read", o.file);
    return false;
  }
  o.body.assign(std::istreambuf_iterator<char>(in), {});
  return true;
}

sdk::Message message_of(const SendCommand& o, std::uint64_t index) {
  sdk::Message m;
  m.topic = o.topic;
  m.body = o.count > 1 ? fmt::format("{} #{}", o.body, index) : o.body;
  m.tag = o.tag;
  m.keys = o.keys;
  m.delay_level = o.delay_level;
  for (const std::string& pair : o.properties) {
    const std::size_t equals = pair.find('=');
    m.properties[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return m;
}

void show(const Context& context, const sdk::Receipt& receipt, double ms) {
  if (context.json) {
    Json json;
    json.begin_object().field("id", receipt.id).field("offset_id", receipt.offset_id);
    json.field("status", sdk::to_string(receipt.status)).field("topic", receipt.queue.topic);
    json.field("broker", receipt.queue.broker).field("queue_id", receipt.queue.id);
    json.field("queue_offset", receipt.queue_offset).field("ms", ms);
    print_line(json.end_object().text());
    return;
  }
  print_line(fmt::format("{}:{} offset={} id={} status={} {} ms",
                         receipt.queue.broker,
                         receipt.queue.id,
                         receipt.queue_offset,
                         receipt.id,
                         sdk::to_string(receipt.status),
                         three_digits(ms)));
}

int send(Context& context, SendCommand& o) {
  std::string problem;
  if (!load_body(o, problem)) {
    return failed(context, problem);
  }
  auto client = connect(context);
  if (!client) {
    return failed(context, client.error());
  }
  sdk::ProducerOptions options;
  options.group = o.group;
  options.send_timeout = duration_of(o.timeout);
  options.selector = o.selector;
  auto producer = sdk::Producer::open(*client, options);
  if (!producer) {
    return failed(context, producer.error());
  }
  // Lines that people read as they come need no other progress.
  for (std::uint64_t i = 1; i <= o.count; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const auto receipt =
        producer->send(message_of(o, i), sdk::SendOptions{.sharding_key = o.sharding_key});
    if (!receipt) {
      return failed(context, receipt.error());
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    show(context, *receipt, took.count());
    if (i < o.count && context.stop.wait(std::chrono::milliseconds(0))) {
      return failed(context, fmt::format("interrupted after {} of {}", i, o.count));
    }
  }
  return kExitOk;
}

}  // namespace

void add_send(CLI::App& app, Context& context) {
  const auto o = std::make_shared<SendCommand>();
  CLI::App* c = app.add_subcommand("send", "Send messages, wait for each answer and print it");
  c->add_option("--topic,-t", o->topic, "Topic; an unknown one is created if the broker allows")
      ->required();
  CLI::Option* body = c->add_option("--body,-b", o->body, "Text of the message");
  c->add_option("--file", o->file, "Body from a file, \"-\": standard input")->excludes(body);
  c->add_option("--tag", o->tag, "Tag, by which consumers select");
  c->add_option("--key,-k", o->keys, "Key, by which the message can be found; may be repeated");
  c->add_option("--property,-p", o->properties, "NAME=VALUE; may be repeated")
      ->check([](const std::string& text) {
        return text.find('=') == std::string::npos || text.front() == '='
                   ? "a property is written NAME=VALUE"
                   : std::string();
      });
  c->add_option("--delay-level", o->delay_level, "0 at once, 1 to 18: 1s 5s 10s 30s 1m … 2h")
      ->check(CLI::Range(0, 18));
  c->add_option("--selector", o->selector, "Plug-in that chooses the queue");
  c->add_option("--sharding-key", o->sharding_key, "What such a plug-in may choose by");
  c->add_option("--group", o->group, "Producer group")->capture_default_str();
  c->add_option("--timeout", o->timeout, "Longest time for one message")
      ->capture_default_str()
      ->check(check_duration);
  c->add_option("--count,-n", o->count, "How many; from 2 on, the body gets a number")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  c->callback([&context, o] { context.run = [&context, o] { return send(context, *o); }; });
}

}  // namespace tenon::app
