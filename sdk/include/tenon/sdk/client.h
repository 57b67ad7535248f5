// What producers, consumers and admins of a process share: connections, routes, timers, identity.
#pragma once

#include "tenon/sdk/credentials.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"
#include "tenon/sdk/tls.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk {

namespace detail {
class ClientCore;
}

/// Runs the function on a thread of the program, now or later, exactly once.
using Executor = std::function<void(std::function<void()>)>;

/// How headers of requests are written. Every server understands both; binary is smaller and
/// faster.
enum class HeaderEncoding : std::uint8_t { kJson, kBinary };

/// Message trace: records of what producers and consumers of the client do are written to a topic, in
/// RocketMQ's form, so that its tools find them by message id or key (mqadmin queryMsgTraceById).
/// Nothing waits for it: records that cannot be stored are dropped.
struct TraceOptions {
  bool enabled = false;
  std::string topic = "RMQ_SYS_TRACE_TOPIC";
};

struct ClientOptions {
  std::string name_servers{};  ///< "host:port;host:port"; empty: environment NAMESRV_ADDR
  /// "http://host:port/path": gives the list as the first line of its answer, at connect() and every
  /// two minutes. Used when there is neither name_servers nor NAMESRV_ADDR. "-<unit_name>?nofix=1"
  /// is appended if there is a unit_name.
  std::string name_server_url{};
  std::size_t io_threads = 1;  ///< 1 to 64
  std::size_t connections_per_broker =
      1;  ///< producers of one Client are spread over them; 1 to 64
  std::string
      instance_name{};      ///< second part of the client id; empty: "<pid>#<nanoseconds>", which
                            ///< is unique
  std::string client_ip{};  ///< first part of the client id; empty: found
  std::string unit_name{};
  /// What this client calls T and g is for servers and other clients name_space%T and name_space%g:
  /// topics, groups and queues of all calls, messages and receipts are inside it. Java's
  /// setNamespace(). Letters, digits, _ and -. Empty: none, unless name_servers is the address of an
  /// instance (MQ_INST_..._....).
  std::string name_space{};
  /// Requests say that they are of a stream client (field ReqT) and the client id ends with @STREAM,
  /// as those of Java's pull consumers, for services that tell the two kinds apart.
  bool stream_requests = false;
  Executor executor{};  ///< runs send callbacks and listeners; empty: I/O threads and own threads
  HeaderEncoding header_encoding = HeaderEncoding::kBinary;  ///< of send requests
  std::vector<std::string>
      plugin_dirs{};                     ///< where selector and allocator plug-ins are looked for,
                                         ///< before TENON_PLUGIN_PATH and the default folders
  Credentials credentials{};             ///< empty: credentials_file; that too: the environment
  std::string credentials_file{};        ///< see Credentials::from_file()
  CredentialsSource credentials_from{};  ///< asked for every request, instead of the former two
  TlsOptions tls{};
  TraceOptions trace{};
  std::vector<RpcHook> rpc_hooks{};  ///< see every request and its answer
  std::string selector{};            ///< of producers that name none: see ProducerOptions::selector
  std::string allocator{};  ///< of consumers that name none: see PushConsumerOptions::allocator
  std::chrono::milliseconds route_refresh{30'000};
  std::chrono::milliseconds heartbeat{30'000};
  std::chrono::milliseconds api_timeout{3'000};      ///< of routes, heartbeats, group members
  std::chrono::milliseconds connect_timeout{3'000};  ///< of one connection attempt
  /// A send waits so long for the connection to its broker and then goes to another one that has
  /// queues of the topic, while connecting goes on. Nothing was written, so nothing is sent twice. A
  /// send whose queue is given, chosen or follows from a key waits for its broker, as does the last
  /// attempt. 0: all wait for connect_timeout; up to 60 s.
  std::chrono::milliseconds switch_after{500};

  /// Reads a file whose keys are the names above, times with `_ms`, the account in [credentials],
  /// [tls], and [strategies] with selector and allocator. Thread: any.
  /// @return kInvalidArgument with all that is wrong, one line each, with its position
  static TENON_SDK_API Result<ClientOptions> from_toml(const std::string& path);
  /// The same for a text.
  static TENON_SDK_API Result<ClientOptions> from_toml_text(std::string_view text);
};

/// Handle of a running client. Producers and consumers keep what they need alive, so they may
/// outlive it. Thread: any.
class TENON_SDK_API Client {
 public:
  /// Checks the options and starts the threads. Name servers are asked when first needed.
  /// @return kInvalidArgument naming the option, or why there are no credentials; kNoNameServer if
  /// none is configured
  static Result<Client> connect(ClientOptions options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// "ip@pid#nanoseconds": the member identity in groups.
  std::string_view id() const noexcept;

 private:
  friend class Producer;
  friend class PullConsumer;
  friend class PushConsumer;
  friend class Admin;
  friend class TransactionProducer;
  explicit Client(std::shared_ptr<detail::ClientCore> core) noexcept;
  std::shared_ptr<detail::ClientCore> core_;
};

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError };
/// Receives the log lines of all clients of the process, instead of warnings going to stderr. Empty:
/// back to stderr. The function is called from any thread. Thread: any, meant for start-up.
TENON_SDK_API void set_log_callback(std::function<void(LogLevel, std::string_view text)> callback);

}  // namespace tenon::sdk
