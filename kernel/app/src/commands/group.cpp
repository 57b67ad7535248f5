// tenon group list|show|set|delete|reset-offset
#include "commands/context.h"

#include "tenon/sdk/admin.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon::app {
namespace {

struct GroupOptions {
  std::string cluster{};
  std::string topic{};
  std::string back{};
  bool to_start = false;
  bool to_end = false;
  bool with_offsets = false;
  bool no_consume = false;
  bool no_broadcast = false;
  bool no_notify = false;
  sdk::GroupSettings settings{};
};

std::string text_of(const std::vector<sdk::SubscriptionInfo>& subscriptions) {
  std::string out;
  for (const auto& s : subscriptions) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ", ", s.topic, s.expression);
    if (s.kind != "TAG") {
      out += fmt::format(" ({})", s.kind);
    }
  }
  return out;
}

void json_of(Json& json, const std::vector<sdk::SubscriptionInfo>& subscriptions) {
  json.begin_array();
  for (const auto& s : subscriptions) {
    json.begin_object().field("topic", s.topic).field("expression", s.expression);
    json.field("kind", s.kind).end_object();
  }
  json.end_array();
}

int list(const Context& context, const GroupOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto cluster = choose_cluster(admin, options.cluster);
    if (!cluster) {
      return failed(context, cluster.error());
    }
    const auto groups = admin.groups(*cluster);
    if (!groups) {
      return failed(context, groups.error());
    }
    if (!context.json) {
      print_line(fmt::format(
          "{:<40} {:>7} {:>9} {:>7} {:>6}", "GROUP", "CONSUME", "BROADCAST", "RETRIES", "NOTIFY"));
      for (const auto& g : *groups) {
        const auto word = [](bool yes) { return yes ? "yes" : "no"; };
        print_line(fmt::format("{:<40} {:>7} {:>9} {:>7} {:>6}",
                               g.name,
                               word(g.consume),
                               word(g.broadcast),
                               g.retry_queues > 0 ? g.retry_max : 0,
                               word(g.notify_members)));
      }
      return kExitOk;
    }
    Json json;
    json.begin_array();
    for (const auto& g : *groups) {
      json.begin_object().field("group", g.name).field("consume", g.consume);
      json.field("broadcast", g.broadcast).field("retry_queues", g.retry_queues);
      json.field("retry_max", g.retry_max).field("notify_members", g.notify_members).end_object();
    }
    return print_line(json.end_array().text());
  });
}

void show_json(const std::string& name,
               const sdk::GroupInfo& group,
               const std::vector<sdk::QueueProgress>& progress) {
  Json json;
  json.begin_object().field("group", name).field("online", group.online);
  json.field("mode", group.mode).field("kind", group.kind);
  json.field("subscription_mismatch", group.mismatch);
  json_of(json.key("subscriptions"), group.subscriptions);
  json.key("members").begin_array();
  for (const auto& m : group.members) {
    json.begin_object().field("client_id", m.client_id).field("address", m.address);
    json.field("language", m.language).field("version", m.version);
    if (m.known) {
      json_of(json.key("subscriptions"), m.subscriptions);
    }
    json.end_object();
  }
  std::int64_t lag = 0;
  for (const auto& p : progress) {
    lag += p.lag();
  }
  json.end_array().field("lag", lag).key("queues").begin_array();
  for (const auto& p : progress) {
    json.begin_object().field("topic", p.queue.topic).field("broker", p.queue.broker);
    json.field("queue_id", p.queue.id).field("broker_offset", p.broker_offset);
    json.field("consumer_offset", p.consumer_offset).field("lag", p.lag()).end_object();
  }
  print_line(json.end_array().end_object().text());
}

void show_text(const std::string& name,
               const sdk::GroupInfo& group,
               const std::vector<sdk::QueueProgress>& progress) {
  if (group.online) {
    print_line(fmt::format("group {}, {}, {} members, brokers go by {}",
                           name,
                           group.mode,
                           group.members.size(),
                           text_of(group.subscriptions)));
    if (group.mismatch) {
      print_line(
          "MISMATCH: members subscribe differently; each takes topics and tags from the others");
    }
    print_line(
        fmt::format("{:<40} {:<22} {:<8} {}", "MEMBER", "ADDRESS", "LANGUAGE", "SUBSCRIBES"));
    for (const auto& m : group.members) {
      print_line(fmt::format("{:<40} {:<22} {:<8} {}",
                             m.client_id,
                             m.address,
                             m.language,
                             m.known ? text_of(m.subscriptions) : "(did not tell)"));
    }
  } else {
    print_line(fmt::format("group {}, nobody is online", name));
  }
  std::map<std::string, std::int64_t> lags;
  std::int64_t total = 0;
  for (const auto& p : progress) {
    lags[p.queue.topic] += p.lag();
    total += p.lag();
  }
  print_line(fmt::format("{:<40} {:>12}", "TOPIC", "LAG"));
  for (const auto& [topic, lag] : lags) {
    print_line(fmt::format("{:<40} {:>12}", topic, lag));
  }
  print_line(fmt::format("{:<40} {:>12}", "in all", total));
}

int show(const Context& context, const GroupOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const std::string& name = options.settings.name;
    const auto group = admin.group(name);
    if (!group) {
      return failed(context, group.error());
    }
    const auto progress = admin.progress(name);
    if (!progress) {
      return failed(context, progress.error());
    }
    if (!group->online && progress->empty()) {
      return failed(context, fmt::format("group {} is not online and has no offsets", name));
    }
    (context.json ? show_json : show_text)(name, *group, *progress);
    return kExitOk;
  });
}

int set(const Context& context, const GroupOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto cluster = choose_cluster(admin, options.cluster);
    if (!cluster) {
      return failed(context, cluster.error());
    }
    sdk::GroupSettings settings = options.settings;
    settings.consume = !options.no_consume;
    settings.broadcast = !options.no_broadcast;
    settings.notify_members = !options.no_notify;
    if (const auto done = admin.set_group(*cluster, settings); !done) {
      return failed(context, done.error());
    }
    return print_line(context.json
                          ? Json().begin_object().field("group", settings.name).end_object().text()
                          : fmt::format("group {} set in cluster {}", settings.name, *cluster));
  });
}

int remove(const Context& context, const GroupOptions& options) {
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto cluster = choose_cluster(admin, options.cluster);
    if (!cluster) {
      return failed(context, cluster.error());
    }
    const std::string& name = options.settings.name;
    if (const auto done = admin.delete_group(*cluster, name, options.with_offsets); !done) {
      return failed(context, done.error());
    }
    return print_line(context.json
                          ? Json().begin_object().field("deleted", name).end_object().text()
                          : fmt::format("group {} deleted", name));
  });
}

int reset(const Context& context, const GroupOptions& options) {
  if (options.to_start + options.to_end + !options.back.empty() != 1) {
    return failed(context, "say where to: one of --to-start, --to-end, --back", kExitUsage);
  }
  using Time = std::chrono::system_clock::time_point;
  const Time when = options.to_end ? Time::max()
                    : options.to_start
                        ? Time{}
                        : std::chrono::system_clock::now() - duration_of(options.back);
  return with_admin(context, [&](sdk::Admin& admin) {
    const auto offsets = admin.reset_offset(options.settings.name, options.topic, when);
    if (!offsets) {
      return failed(context, offsets.error());
    }
    if (!context.json) {
      print_line(fmt::format("{:<24} {:>5} {:>12}", "BROKER", "QUEUE", "OFFSET"));
      for (const auto& [queue, offset] : *offsets) {
        print_line(fmt::format("{:<24} {:>5} {:>12}", queue.broker, queue.id, offset));
      }
      return kExitOk;
    }
    Json json;
    json.begin_object().field("group", options.settings.name).field("topic", options.topic);
    json.key("queues").begin_array();
    for (const auto& [queue, offset] : *offsets) {
      json.begin_object().field("broker", queue.broker).field("queue_id", queue.id);
      json.field("offset", offset).end_object();
    }
    return print_line(json.end_array().end_object().text());
  });
}

}  // namespace

void add_group(CLI::App& app, Context& context) {
  CLI::App* group =
      app.add_subcommand("group", "List, show, set and delete consumer groups, reset offsets");
  group->require_subcommand(1);
  const auto options = std::make_shared<GroupOptions>();
  const auto command = [&](const char* name, const char* help, bool named, auto run) {
    CLI::App* one = group->add_subcommand(name, help);
    if (named) {
      one->add_option("NAME", options->settings.name, "Name of the group")->required();
    }
    one->callback([&context, options, run] {
      context.run = [&context, options, run] { return run(context, *options); };
    });
    return one;
  };
  const auto cluster = [&](CLI::App* one) {
    one->add_option("--cluster", options->cluster, "Cluster; default: the only one");
  };
  cluster(command("list", "Groups and their settings", false, list));
  command("show", "Members, what each subscribes, and how far they are", true, show);

  CLI::App* one = command("set", "Create a group, or change its settings", true, set);
  cluster(one);
  one->add_option("--retries", options->settings.retry_max, "Attempts before the dead letters")
      ->capture_default_str();
  one->add_option("--retry-queues", options->settings.retry_queues, "Queues for retries, 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  one->add_flag("--no-consume", options->no_consume, "Refuse its pulls");
  one->add_flag("--no-broadcast", options->no_broadcast, "Refuse broadcasting");
  one->add_flag("--no-notify", options->no_notify, "Do not tell members who comes and goes");

  one = command("delete", "Delete the settings of a group", true, remove);
  cluster(one);
  one->add_flag("--with-offsets", options->with_offsets, "Also what it has consumed");

  one = command("reset-offset", "Consume a topic again, or skip it", true, reset);
  one->add_option("--topic", options->topic, "Topic")->required();
  one->add_flag("--to-start", options->to_start, "To the first message");
  one->add_flag("--to-end", options->to_end, "Behind the last message");
  one->add_option("--back", options->back, "To the messages of so long ago: 30s, 5m")
      ->check(check_duration);
}

}  // namespace tenon::app
