// Outgoing TLS against a terminator made of plain OpenSSL calls in front of the test server. One
// self-signed certificate is authority, server and client at once.
#include "tenon/net/tls.h"

#include "net_fixture.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <vector>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

using namespace tenon;
using namespace tenon::net;
using namespace tenon::net::test;

namespace {

namespace fs = std::filesystem;

/// A key and a certificate for 127.0.0.1, as files that go away with the object.
class Identity {
 public:
  explicit Identity(const std::string& name)
      : folder_(fs::temp_directory_path() / ("tenon_tls_" + std::to_string(::getpid()) + name)) {
    fs::create_directories(folder_);
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME* subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject,
                               "CN",
                               MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()),
                               -1,
                               -1,
                               0);
    X509_set_issuer_name(cert, subject);
    for (const auto& [id, text] : {std::pair(NID_basic_constraints, "critical,CA:TRUE"),
                                   std::pair(NID_subject_alt_name, "IP:127.0.0.1")}) {
      X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, text);
      X509_add_ext(cert, extension, -1);
      X509_EXTENSION_free(extension);
    }
    X509_sign(cert, key, EVP_sha256());
    std::FILE* out = std::fopen(cert_file().c_str(), "w");
    PEM_write_X509(out, cert);
    std::fclose(out);
    out = std::fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
    X509_free(cert);
    EVP_PKEY_free(key);
  }
  ~Identity() { fs::remove_all(folder_); }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  std::string cert_file() const { return (folder_ / "cert.pem").string(); }
  std::string key_file() const { return (folder_ / "key.pem").string(); }

 private:
  const fs::path folder_;
};

/// Accepts TLS on a port of its own and passes the bytes on to another.
class Terminator {
 public:
  Terminator(const Identity& who, std::uint16_t target, bool ask_client = false)
      : context_(SSL_CTX_new(TLS_server_method())),
        target_(target) {
    std::signal(SIGPIPE, SIG_IGN);  // plain OpenSSL writes without MSG_NOSIGNAL
    SSL_CTX_use_certificate_chain_file(context_, who.cert_file().c_str());
    SSL_CTX_use_PrivateKey_file(context_, who.key_file().c_str(), SSL_FILETYPE_PEM);
    if (ask_client) {
      SSL_CTX_load_verify_locations(context_, who.cert_file().c_str(), nullptr);
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(listener_, 16) == 0);
    REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~Terminator() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    cut();
    for (std::thread& t : threads_) {
      t.join();
    }
    ::close(listener_);
    SSL_CTX_free(context_);
  }
  Terminator(const Terminator&) = delete;
  Terminator& operator=(const Terminator&) = delete;
  const std::string& address() const { return address_; }
  /// Ends all connections.
  void cut() {
    const std::scoped_lock lock(mutex_);
    for (const int fd : open_) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept(listener_, nullptr, nullptr);
      if (fd < 0) {
        return;
      }
      const std::scoped_lock lock(mutex_);
      open_.push_back(fd);
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    SSL* tls = SSL_new(context_);
    SSL_set_fd(tls, fd);
    const int other = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = loopback(target_);
    if (SSL_accept(tls) == 1 &&
        ::connect(other, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) {
      while (pass_on(tls, fd, other)) {
      }
    }
    SSL_free(tls);
    ::close(other);
    const std::scoped_lock lock(mutex_);
    std::erase(open_, fd);
    ::close(fd);
  }

  static bool pass_on(SSL* tls, int fd, int other) {
    char buffer[16 * 1024];
    pollfd both[] = {{fd, POLLIN, 0}, {other, POLLIN, 0}};
    if (SSL_pending(tls) == 0 && ::poll(both, 2, -1) < 0) {
      return false;
    }
    if (SSL_pending(tls) > 0 || both[0].revents != 0) {
      const int n = SSL_read(tls, buffer, sizeof buffer);
      if (n <= 0 || ::send(other, buffer, static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) {
        return false;
      }
    }
    if (both[1].revents != 0) {
      const ssize_t n = ::recv(other, buffer, sizeof buffer, 0);
      return n > 0 && SSL_write(tls, buffer, static_cast<int>(n)) == n;
    }
    return true;
  }

  SSL_CTX* const context_;
  const std::uint16_t target_;
  int listener_ = -1;
  std::string address_{};
  std::mutex mutex_;
  std::vector<int> open_;             ///< guarded by mutex_
  std::vector<std::thread> threads_;  ///< guarded by mutex_ until the acceptor has ended
  std::thread acceptor_;
};

struct Client {
  explicit Client(const TlsClientOptions& tls,
                  std::chrono::milliseconds connect_timeout = std::chrono::seconds(20))
      : pool(IoPool::start({.threads = 1, .name = "cli"}).value()) {
    RpcClientOptions options;
    options.tls = TlsClient::create(tls).value();
    options.connect_timeout = connect_timeout;
    rpc = RpcClient::create(*pool, options);
  }
  ~Client() {
    rpc->stop();
    pool->stop();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  Result<proto::Command> ask(const std::string& address, std::string body = "hello") {
    return rpc->call_blocking(address, {.code = 5, .body = std::move(body)}, 20s);
  }
  std::unique_ptr<IoPool> pool;
  std::unique_ptr<RpcClient> rpc;
};

TlsClientOptions trusting(const Identity& who) {
  TlsClientOptions o;
  o.ca_file = who.cert_file();
  return o;
}

}  // namespace

TEST_SUITE("net/tls") {
  TEST_CASE("calls small and large get their answers through TLS") {
    TestServer server;
    const Identity who("server");
    const Terminator front(who, server.port());
    Client client(trusting(who));
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{100'000}, std::size_t{3'000'000}}) {
      const std::string body(bytes, 'x');
      const auto answer = client.ask(front.address(), body);
      REQUIRE(answer.has_value());
      CHECK(answer.value().body == body);
    }
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) {
          const std::string body = std::to_string(t * 1000 + i);
          const auto answer = client.ask(front.address(), body);
          good += answer.has_value() && answer.value().body == body ? 1 : 0;
        }
      });
    }
    for (std::thread& t : threads) {
      t.join();
    }
    CHECK(good == 200);
  }

  TEST_CASE("a certificate of somebody else, or for another name, is refused; unless asked for") {
    TestServer server;
    const Identity who("server");
    const Identity other("other");
    const Terminator front(who, server.port());
    const auto refused = [&](const TlsClientOptions& options) {
      Client client(options);
      const auto answer = client.ask(front.address());
      return answer.has_error() && answer.error().code == Errc::kNotReady &&
             answer.error().detail.find("certificate verify failed") != std::string::npos;
    };
    CHECK(refused(trusting(other)));
    TlsClientOptions name = trusting(who);
    name.server_name = "broker.example";
    CHECK(refused(name));
    name.check_name = false;
    CHECK(Client(name).ask(front.address()).has_value());
    TlsClientOptions blind = trusting(other);
    blind.verify = false;
    CHECK(Client(blind).ask(front.address()).has_value());
  }

  TEST_CASE("a server that asks for a certificate of the client gets it") {
    TestServer server;
    const Identity who("server");
    const Terminator front(who, server.port(), true);
    CHECK(Client(trusting(who)).ask(front.address()).has_error());
    TlsClientOptions mine = trusting(who);
    mine.certificate_file = who.cert_file();
    mine.key_file = who.key_file();
    CHECK(Client(mine).ask(front.address()).has_value());
  }

  TEST_CASE("the connection is cut: what is in flight ends, the next call connects anew") {
    TestServer server;
    const Identity who("server");
    Terminator front(who, server.port());
    Client client(trusting(who));
    REQUIRE(client.ask(front.address()).has_value());
    front.cut();
    bool again = false;
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!again && std::chrono::steady_clock::now() < end) {
      const auto answer = client.ask(front.address());
      again = answer.has_value();
      CHECK((again || answer.error().code == Errc::kClosed));
    }
    CHECK(again);
  }

  TEST_CASE("a server that does not speak TLS, or says nothing, fails the connection in time") {
    TestServer plain;
    const Identity who("server");
    Client client(trusting(who), 200ms);
    const auto answer = client.ask("127.0.0.1:" + std::to_string(plain.port()));
    REQUIRE(answer.has_error());
    CHECK(answer.error().code == Errc::kNotReady);
    // The system accepts for a socket that listens; nobody reads what arrives.
    const int silent = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    REQUIRE(::bind(silent, reinterpret_cast<sockaddr*>(&at), size) == 0);
    REQUIRE(::listen(silent, 16) == 0);
    REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    const auto none = client.ask("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
    ::close(silent);
    REQUIRE(none.has_error());
    CHECK(none.error().code == Errc::kNotReady);
  }

  TEST_CASE("files that are missing or do not belong together are named") {
    const Identity who("server");
    const Identity other("other");
    TlsClientOptions o = trusting(who);
    o.ca_file = "/nonexistent/ca.pem";
    CHECK(TlsClient::create(o).error().detail.find("/nonexistent/ca.pem") != std::string::npos);
    o = trusting(who);
    o.certificate_file = who.cert_file();
    CHECK(TlsClient::create(o).error().code == Errc::kInvalid);
    o.key_file = other.key_file();
    CHECK(TlsClient::create(o).error().code == Errc::kInvalid);
  }
}
