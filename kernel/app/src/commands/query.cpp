// tenon query key|id
#include "commands/context.h"

#include "tenon/sdk/admin.h"

#include <vector>

namespace tenon::app {
namespace {

struct QueryCommand {
  std::string topic{};
  std::string key{};
  std::string id{};
  int max = 32;
};

int show(const Context& context, const std::vector<sdk::MessageView>& found) {
  if (!context.json) {
    for (const sdk::MessageView& message : found) {
      print_line(message_line(message));
    }
    return kExitOk;
  }
  Json json;
  json.begin_array();
  for (const sdk::MessageView& message : found) {
    json.begin_object();
    message_json(json, message);
    json.end_object();
  }
  return print_line(json.end_array().text());
}

int query(const Context& context, const QueryCommand& o) {
  auto client = connect(context);
  if (!client) {
    return failed(context, client.error());
  }
  auto admin = sdk::Admin::open(*client);
  if (!admin) {
    return failed(context, admin.error());
  }
  if (!o.id.empty()) {
    const auto found = admin->message_by_id(o.id, o.topic);
    return found ? show(context, {*found}) : failed(context, found.error());
  }
  const auto found = admin->messages_by_key(o.topic, o.key, o.max);
  return found ? show(context, *found) : failed(context, found.error());
}

}  // namespace

void add_query(CLI::App& app, Context& context) {
  const auto o = std::make_shared<QueryCommand>();
  CLI::App* c = app.add_subcommand("query", "Find messages that are stored");
  c->require_subcommand(1);
  CLI::App* by_key = c->add_subcommand("key", "Messages with a key, newest first");
  by_key->add_option("TOPIC", o->topic, "Topic")->required();
  by_key->add_option("KEY", o->key, "Key")->required();
  by_key->add_option("--max", o->max, "At most so many")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  CLI::App* by_id = c->add_subcommand("id", "One message by its id");
  by_id->add_option("ID", o->id, "The broker's id, or with --topic the sender's")->required();
  by_id->add_option("--topic,-t", o->topic, "Topic, for an id that the sender made");
  for (CLI::App* one : {by_key, by_id}) {
    one->callback([&context, o] { context.run = [&context, o] { return query(context, *o); }; });
  }
}

}  // namespace tenon::app
