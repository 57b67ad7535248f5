// ClientOptions in a TOML file.
#include "errors.h"

#include "tenon/config/reader.h"
#include "tenon/config/toml.h"
#include "tenon/sdk/client.h"

#include <chrono>
#include <string>

namespace tenon::sdk {
namespace {

using Milliseconds = std::chrono::milliseconds;

/// What the file says, in types that the reader knows.
struct File {
  ClientOptions options{};
  std::uint32_t io_threads = 1;
  std::uint32_t connections = 1;
  std::int64_t route_refresh_ms = ClientOptions().route_refresh.count();
  std::int64_t heartbeat_ms = ClientOptions().heartbeat.count();
  std::int64_t api_timeout_ms = ClientOptions().api_timeout.count();
  std::int64_t connect_timeout_ms = ClientOptions().connect_timeout.count();
  std::int64_t switch_after_ms = ClientOptions().switch_after.count();
};

config::KeyInfo milliseconds(std::string_view doc) {
  config::KeyInfo info;
  info.doc = doc;
  info.min = 1;
  return info;
}

config::KeyInfo milliseconds_or_off(std::string_view doc) {
  config::KeyInfo info;
  info.doc = doc;
  info.min = 0;
  info.max = 60'000;
  return info;
}

config::KeyInfo count(std::string_view doc) {
  config::KeyInfo info;
  info.doc = doc;
  info.min = 1;
  info.max = 64;
  return info;
}

config::KeyInfo text(std::string_view doc) {
  config::KeyInfo info;
  info.doc = doc;
  return info;
}

void describe_security(config::Visitor& v, ClientOptions& o) {
  v.table("credentials", "The account of the client.", [&] {
    v.key("access_key", &o.credentials.access_key, text("Name of the account."));
    v.key("secret_key", &o.credentials.secret_key, text("Signs requests; is never sent."));
    v.key("security_token", &o.credentials.security_token, text("Of temporary accounts."));
    v.key("file", &o.credentials_file, text("A file with these instead."));
  });
  v.table("tls", "Encryption.", [&] {
    TlsOptions& t = o.tls;
    v.key("enabled", &t.enabled, text("For all connections."));
    v.key("verify", &t.verify, text("Refuse certificates that ca_file has not signed."));
    v.key("ca_file", &t.ca_file, text("Empty: the system's."));
    v.key("check_name", &t.check_name, text("The certificate must be for the address."));
    v.key("server_name", &t.server_name, text("Instead of the host of the address."));
    v.key("certificate_file", &t.certificate_file, text("Of the client."));
    v.key("key_file", &t.key_file, text("Of the client's certificate."));
    v.key("key_password", &t.key_password, text("Of key_file."));
  });
}

void describe(config::Visitor& v, File& f) {
  ClientOptions& o = f.options;
  v.key("name_servers", &o.name_servers, text("host:port;host:port"));
  v.key("name_server_url", &o.name_server_url, text("An HTTP end point that gives the list."));
  v.key("io_threads", &f.io_threads, count("Threads of connections."));
  v.key("connections_per_broker", &f.connections, count("Producers are spread over them."));
  v.key("instance_name", &o.instance_name, text("Second part of the client id."));
  v.key("client_ip", &o.client_ip, text("First part of the client id."));
  v.key("unit_name", &o.unit_name, text("Last part of the client id."));
  v.key(
      "namespace", &o.name_space, text("Prefix of all topics and groups, unseen by the program."));
  v.key("stream_requests", &o.stream_requests, text("As Java's pull consumers."));
  v.choice("header_encoding",
           o.header_encoding,
           {{"json", HeaderEncoding::kJson}, {"binary", HeaderEncoding::kBinary}},
           text("Of send requests."));
  v.key("plugin_dirs", &o.plugin_dirs, text("Where strategies are looked for first."));
  v.key("route_refresh_ms", &f.route_refresh_ms, milliseconds("Period."));
  v.key("heartbeat_ms", &f.heartbeat_ms, milliseconds("Period."));
  v.key("api_timeout_ms", &f.api_timeout_ms, milliseconds("Of routes, heartbeats, members."));
  v.key("connect_timeout_ms", &f.connect_timeout_ms, milliseconds("Of one attempt."));
  v.key("switch_after_ms",
        &f.switch_after_ms,
        milliseconds_or_off("Without a connection for so long, sends use another broker; 0: off."));
  describe_security(v, o);
  v.table("trace", "Records of what producers and consumers do.", [&] {
    v.key("enabled", &o.trace.enabled, text("Of all of the client."));
    v.key("topic", &o.trace.topic, text("Where they are written."));
  });
  v.table("strategies", "For producers and consumers that name none themselves.", [&] {
    v.key("selector", &o.selector, text("Chooses the queue of a message."));
    v.key("allocator", &o.allocator, text("Shares the queues among the members of a group."));
  });
}

Result<ClientOptions> read(tenon::Result<ConfigNode> root) {
  if (root.has_error()) {
    return from_base(root.error(), Errc::kInvalidArgument);
  }
  auto file = config::read_described<File>(root.value());
  if (file.has_error()) {
    return from_base(file.error(), Errc::kInvalidArgument);
  }
  File& f = file.value();
  ClientOptions o = std::move(f.options);
  o.io_threads = f.io_threads;
  o.connections_per_broker = f.connections;
  o.route_refresh = Milliseconds(f.route_refresh_ms);
  o.heartbeat = Milliseconds(f.heartbeat_ms);
  o.api_timeout = Milliseconds(f.api_timeout_ms);
  o.connect_timeout = Milliseconds(f.connect_timeout_ms);
  o.switch_after = Milliseconds(f.switch_after_ms);
  return o;
}

}  // namespace

Result<ClientOptions> ClientOptions::from_toml(const std::string& path) {
  return read(config::parse_toml_file(path));
}

Result<ClientOptions> ClientOptions::from_toml_text(std::string_view text) {
  return read(config::parse_toml(text, "options"));
}

}  // namespace tenon::sdk
