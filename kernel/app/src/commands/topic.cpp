// tenon topic create|list|route|delete
#include "commands/context.h"

#include "tenon/sdk/admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tenon::app {
namespace {

struct TopicOptions {
  std::string name{};
  std::string cluster{};
  int queues = 8;
  int permission = 6;
};

int create(const Context& context, const TopicOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto cluster = choose_cluster(admin, options.cluster);
    if (!cluster) {
      return failed(context, cluster.error());
    }
    const auto done =
        admin.create_topic(*cluster, options.name, options.queues, options.permission);
    if (!done) {
      return failed(context, done.error());
    }
    if (context.json) {
      Json json;
      json.begin_object().field("topic", options.name).field("cluster", *cluster);
      json.field("queues", options.queues).field("permission", options.permission);
      return print_line(json.end_object().text());
    }
    return print_line(fmt::format("topic {} with {} queues per broker in cluster {}",
                                  options.name,
                                  options.queues,
                                  *cluster));
  });
}

int remove(const Context& context, const TopicOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto cluster = choose_cluster(admin, options.cluster);
    if (!cluster) {
      return failed(context, cluster.error());
    }
    if (const auto done = admin.delete_topic(*cluster, options.name); !done) {
      return failed(context, done.error());
    }
    return print_line(context.json
                          ? Json().begin_object().field("deleted", options.name).end_object().text()
                          : fmt::format("topic {} deleted", options.name));
  });
}

int list(const Context& context) {
  return with_admin(context, [&](sdk::Admin& admin) {
    auto topics = admin.topics();
    if (!topics) {
      return failed(context, topics.error());
    }
    std::sort(topics->begin(), topics->end());
    if (context.json) {
      Json json;
      json.begin_array();
      for (const std::string& topic : *topics) {
        json.value(topic);
      }
      return print_line(json.end_array().text());
    }
    for (const std::string& topic : *topics) {
      print_line(topic);
    }
    return kExitOk;
  });
}

std::string addresses_of(const sdk::RouteInfo& route, const std::string& broker) {
  std::string out;
  for (const auto& info : route.brokers) {
    for (const auto& [id, address] : info.addresses) {
      if (info.name == broker) {
        out += fmt::format("{}{}{}", out.empty() ? "" : ", ", address, id == 0 ? "" : " (slave)");
      }
    }
  }
  return out;
}

int route(const Context& context, const TopicOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto found = admin.route(options.name);
    if (!found) {
      return failed(context, found.error());
    }
    if (!context.json) {
      print_line(fmt::format(
          "{:<24} {:>5} {:>6} {:>5}  {}", "BROKER", "READ", "WRITE", "PERM", "ADDRESS"));
      for (const auto& queue : found->queues) {
        print_line(fmt::format("{:<24} {:>5} {:>6} {:>5}  {}",
                               queue.broker,
                               queue.read_queues,
                               queue.write_queues,
                               queue.permission,
                               addresses_of(*found, queue.broker)));
      }
      return kExitOk;
    }
    Json json;
    json.begin_object().field("topic", options.name).key("queues").begin_array();
    for (const auto& queue : found->queues) {
      json.begin_object().field("broker", queue.broker).field("read_queues", queue.read_queues);
      json.field("write_queues", queue.write_queues).field("permission", queue.permission);
      json.end_object();
    }
    json.end_array().key("brokers").begin_array();
    for (const auto& info : found->brokers) {
      json.begin_object().field("name", info.name).field("cluster", info.cluster);
      json.key("addresses").begin_object();
      for (const auto& [id, address] : info.addresses) {
        json.field(std::to_string(id), address);
      }
      json.end_object().end_object();
    }
    return print_line(json.end_array().end_object().text());
  });
}

}  // namespace

void add_topic(CLI::App& app, Context& context) {
  CLI::App* topic = app.add_subcommand("topic", "Create, list, look up and delete topics");
  topic->require_subcommand(1);
  const auto options = std::make_shared<TopicOptions>();

  CLI::App* one = topic->add_subcommand("create", "Create a topic, or change its settings");
  one->add_option("NAME", options->name, "Name of the topic")->required();
  one->add_option("--queues", options->queues, "Queues on each broker")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  one->add_option("--permission", options->permission, "4 read + 2 write")
      ->capture_default_str()
      ->check(CLI::Range(0, 7));
  one->add_option("--cluster", options->cluster, "Cluster; default: the only one");
  one->callback([&context, options] {
    context.run = [&context, options] { return create(context, *options); };
  });

  one = topic->add_subcommand("list", "Names of all topics");
  one->callback([&context] { context.run = [&context] { return list(context); }; });

  one = topic->add_subcommand("route", "Brokers and queues of a topic");
  one->add_option("NAME", options->name, "Name of the topic")->required();
  one->callback([&context, options] {
    context.run = [&context, options] { return route(context, *options); };
  });

  one = topic->add_subcommand("delete", "Delete a topic from brokers and name servers");
  one->add_option("NAME", options->name, "Name of the topic")->required();
  one->add_option("--cluster", options->cluster, "Cluster; default: the only one");
  one->callback([&context, options] {
    context.run = [&context, options] { return remove(context, *options); };
  });
}

}  // namespace tenon::app
