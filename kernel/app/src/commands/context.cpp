#include "commands/context.h"

#include "tenon/base/units.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

namespace tenon::app {
namespace {

/// Longest part of a body that is shown to people.
constexpr std::size_t kShownBytes = 200;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return out;
}

bool printable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return false;
    }
  }
  return is_utf8(text);
}

std::int64_t epoch_ms(std::chrono::system_clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(t.time_since_epoch()).count();
}

}  // namespace

int failed(const Context& context, std::string_view text, int exit_code) {
  std::fprintf(stderr, "tenon: %.*s\n", static_cast<int>(text.size()), text.data());
  if (context.json) {
    print_line(Json().begin_object().field("error", text).end_object().text());
  }
  return exit_code;
}

int failed(const Context& context, const sdk::Error& error) {
  std::fprintf(stderr, "tenon: %s\n", error.text().c_str());
  if (context.json) {
    Json json;
    json.begin_object().field("error", error.text());
    json.field("code", error.code.value()).field("response", error.response);
    print_line(json.end_object().text());
  }
  return kExitFailed;
}

int print_line(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  return kExitOk;
}

sdk::Result<sdk::Client> connect(const Context& context, sdk::ClientOptions options) {
  sdk::set_log_callback([verbose = context.verbose](sdk::LogLevel level, std::string_view text) {
    if (verbose || level == sdk::LogLevel::kError) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
    }
  });
  options.name_servers = context.namesrv;
  return sdk::Client::connect(std::move(options));
}

sdk::Result<std::string> choose_cluster(sdk::Admin& admin, const std::string& wanted) {
  if (!wanted.empty()) {
    return wanted;
  }
  auto brokers = admin.brokers();
  if (!brokers) {
    return std::move(brokers).error();
  }
  std::set<std::string> names;
  for (const auto& broker : *brokers) {
    names.insert(broker.cluster);
  }
  if (names.size() == 1) {
    return *names.begin();
  }
  sdk::Error error;
  error.code = make_error_code(names.empty() ? sdk::Errc::kNotFound : sdk::Errc::kInvalidArgument);
  error.remark = names.empty() ? "no broker is registered at the name server"
                               : "there are several clusters, choose one with --cluster";
  return error;
}

int with_admin(const Context& context, const std::function<int(sdk::Admin&)>& use) {
  auto client = connect(context);
  if (!client) {
    return failed(context, client.error());
  }
  auto admin = sdk::Admin::open(*client);
  return admin ? use(*admin) : failed(context, admin.error());
}

std::string message_line(const sdk::MessageView& message) {
  std::string out = fmt::format("{}:{} offset={} id={}",
                                message.broker(),
                                message.queue_id(),
                                message.queue_offset(),
                                message.id());
  if (!message.tag().empty()) {
    out += fmt::format(" tag={}", message.tag());
  }
  if (!message.keys().empty()) {
    out += fmt::format(" keys=\"{}\"", message.keys());
  }
  if (message.reconsume_times() > 0) {
    out += fmt::format(" attempt={}", message.reconsume_times() + 1);
  }
  const std::string_view body = message.body();
  if (printable(body.substr(0, kShownBytes))) {
    out += fmt::format(
        " body=\"{}{}\"", body.substr(0, kShownBytes), body.size() > kShownBytes ? "…" : "");
  } else {
    out += fmt::format(" body={} bytes", body.size());
  }
  return out;
}

void message_json(Json& json, const sdk::MessageView& message) {
  json.field("topic", message.topic());
  json.field("broker", message.broker());
  json.field("queue_id", message.queue_id());
  json.field("queue_offset", message.queue_offset());
  json.field("id", message.id());
  json.field("offset_id", message.offset_id());
  json.field("born_ms", epoch_ms(message.born_time()));
  json.field("store_ms", epoch_ms(message.store_time()));
  json.field("born_host", message.born_host());
  json.field("reconsume_times", message.reconsume_times());
  json.field("tag", message.tag());
  json.field("keys", message.keys());
  json.key("properties").begin_object();
  for (const auto& [name, value] : message.properties()) {
    json.field(name, value);
  }
  json.end_object();
  const std::string_view body = message.body();
  json.field("body_bytes", body.size());
  if (is_utf8(body)) {
    json.field("body", body);
  } else {
    json.field("body_hex", hex(body));
  }
}

std::string three_digits(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string check_duration(const std::string& text) {
  const auto parsed = parse_duration_ms(text);
  return parsed ? std::string() : parsed.error().detail;
}

std::chrono::milliseconds duration_of(const std::string& text) {
  return std::chrono::milliseconds(parse_duration_ms(text).value());
}

}  // namespace tenon::app
