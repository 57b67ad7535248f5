// C interface: errors, log, client.
#include "c/c_support.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string_view>

namespace tenon::sdk::c {
namespace {

struct LastError {
  std::string text{};
  std::int32_t response = -1;
  bool outcome_unknown = false;
};

LastError& last_error() noexcept {
  thread_local LastError error;
  return error;
}

std::vector<std::string> folders(const char* joined) {
  std::vector<std::string> out;
  std::string_view rest = joined == nullptr ? std::string_view() : std::string_view(joined);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) {
      out.emplace_back(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

Result<ClientOptions> client_options(const tenon_client_options& in) {
  ClientOptions out;
  out.name_servers = text(in.name_servers);
  out.instance_name = text(in.instance_name);
  out.client_ip = text(in.client_ip);
  out.plugin_dirs = folders(in.plugin_dirs);
  set(out.io_threads, in.io_threads);
  set(out.connections_per_broker, in.connections_per_broker);
  set(out.route_refresh, in.route_refresh_ms);
  set(out.heartbeat, in.heartbeat_ms);
  set(out.api_timeout, in.api_timeout_ms);
  set(out.connect_timeout, in.connect_timeout_ms);
  set(out.switch_after, std::max<std::int64_t>(in.switch_after_ms, 0));
  if (in.switch_after_ms < 0) {
    out.switch_after = std::chrono::milliseconds(0);
  }
  out.credentials.access_key = text(in.access_key);
  out.credentials.secret_key = text(in.secret_key);
  out.credentials.security_token = text(in.security_token);
  out.credentials_file = text(in.credentials_file);
  out.name_server_url = text(in.name_server_url);
  out.unit_name = text(in.unit_name);
  out.name_space = text(in.name_space);
  out.stream_requests = in.stream_requests != 0;
  out.trace.enabled = in.trace != 0;
  if (in.trace_topic != nullptr) {
    out.trace.topic = in.trace_topic;
  }
  tenon_tls_options tls;
  if (!adopt(in.tls, tls)) {
    return Error{Errc::kInvalidArgument, -1, "options.tls.size is wrong"};
  }
  out.tls.enabled = in.tls != nullptr;
  out.tls.verify = tls.no_verify == 0;
  out.tls.check_name = tls.no_name_check == 0;
  out.tls.ca_file = text(tls.ca_file);
  out.tls.server_name = text(tls.server_name);
  out.tls.certificate_file = text(tls.certificate_file);
  out.tls.key_file = text(tls.key_file);
  out.tls.key_password = text(tls.key_password);
  return out;
}

}  // namespace

std::int32_t failed(const Error& error) noexcept {
  LastError& last = last_error();
  last.response = error.response;
  last.outcome_unknown = error.outcome_unknown;
  try {
    last.text = error.text();
  } catch (...) {
    last.text.clear();  // no memory for the text; the code says enough
  }
  return error.code.value();
}

std::int32_t failed(Errc code, const char* text) noexcept {
  LastError& last = last_error();
  last.response = -1;
  last.outcome_unknown = false;
  try {
    last.text = text;
  } catch (...) {
    last.text.clear();
  }
  return static_cast<std::int32_t>(code);
}

}  // namespace tenon::sdk::c

using namespace tenon::sdk;

const char* tenon_client_error_text() noexcept {
  return c::last_error().text.c_str();
}
int32_t tenon_client_error_response() noexcept {
  return c::last_error().response;
}
int32_t tenon_client_error_outcome_unknown() noexcept {
  return c::last_error().outcome_unknown ? 1 : 0;
}
const char* tenon_client_version() noexcept {
  return TENON_SDK_VERSION;
}

void tenon_client_set_log(tenon_client_log_fn log, void* arg) noexcept {
  c::guarded([&] {
    if (log == nullptr) {
      set_log_callback({});
    } else {
      set_log_callback([log, arg](LogLevel level, std::string_view text) {
        log(arg, static_cast<std::int32_t>(level), std::string(text).c_str());
      });
    }
    return 0;
  });
}

int32_t tenon_client_connect(const tenon_client_options* options, tenon_client** out) noexcept {
  return c::guarded([&] {
    tenon_client_options in;
    if (out == nullptr || !c::adopt(options, in)) {
      return c::failed(Errc::kInvalidArgument,
                       "tenon_client_connect: options.size or out is wrong");
    }
    auto settings = c::client_options(in);
    if (!settings) {
      return c::failed(settings.error());
    }
    auto client = Client::connect(std::move(*settings));
    if (!client) {
      return c::failed(client.error());
    }
    std::string id(client->id());
    *out = new tenon_client{std::move(*client), std::move(id)};
    return 0;
  });
}

const char* tenon_client_id(const tenon_client* client) noexcept {
  return client->id.c_str();
}

void tenon_client_destroy(tenon_client* client) noexcept {
  delete client;
}
