#include "name_server_url.h"

#include "errors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon::sdk {
namespace {

constexpr std::string_view kScheme = "http://";
constexpr std::size_t kAnswerMax = 64u * 1024;
using HttpTime = std::chrono::steady_clock::time_point;

struct Socket {
  explicit Socket(int descriptor) noexcept
      : fd(descriptor) {}
  ~Socket() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd;
};

Error url_failure(Errc code, const HttpUrl& url, const std::string& why) {
  return make_error(code, "name servers from " + url.host + ":" + url.port + ": " + why);
}

/// False: the time is over.
bool socket_ready(int fd, short what, HttpTime end) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  pollfd p{fd, what, 0};
  return left.count() > 0 && ::poll(&p, 1, static_cast<int>(left.count())) > 0;
}

std::string error_text(int number) {
  return std::generic_category().message(number);
}

/// Tries the addresses of the host one after another.
Result<std::unique_ptr<Socket>> connect_to(const HttpUrl& url, HttpTime end) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int rc = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &list); rc != 0) {
    return url_failure(Errc::kConnect, url, ::gai_strerror(rc));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> keep(list, &::freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    auto s = std::make_unique<Socket>(
        ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    if (s->fd < 0) {
      why = error_text(errno);
      continue;
    }
    if (::connect(s->fd, a->ai_addr, a->ai_addrlen) == 0) {
      return s;
    }
    int error = errno;
    if (error == EINPROGRESS) {
      if (!socket_ready(s->fd, POLLOUT, end)) {
        return url_failure(Errc::kTimeout, url, "no connection in time");
      }
      socklen_t size = sizeof error;
      ::getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0) {
        return s;
      }
    }
    why = error_text(error);
  }
  return url_failure(Errc::kConnect, url, why);
}

bool is_blank(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

}  // namespace

Result<HttpUrl> parse_http_url(std::string_view url) {
  const auto bad = [&] {
    return make_error(Errc::kInvalidArgument,
                      "name_server_url must be http://host[:port]/path: " + std::string(url));
  };
  if (!url.starts_with(kScheme) ||
      std::any_of(url.begin(), url.end(), [](unsigned char c) { return c <= ' ' || c >= 0x7f; })) {
    return bad();
  }
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view host = rest.substr(0, slash);
  HttpUrl out;
  out.path = std::string(rest.substr(slash));
  if (out.path.empty() || out.path.front() != '/') {
    out.path.insert(0, "/");
  }
  out.port = "80";
  const std::size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == std::string_view::npos) {
    return bad();
  }
  if (const std::size_t colon = host.find(':', bracket); colon != std::string_view::npos) {
    out.port = std::string(host.substr(colon + 1));
    host = host.substr(0, colon);
  }
  if (host.starts_with('[')) {  // a numeric IPv6 address
    host = host.substr(1, bracket - 1);
  }
  out.host = std::string(host);
  const bool number = !out.port.empty() && out.port.size() <= 5 &&
                      out.port.find_first_not_of("0123456789") == std::string::npos;
  if (out.host.empty() || !number) {
    return bad();
  }
  return out;
}

Result<std::string> first_line_of_answer(std::string_view answer) {
  const std::size_t body = answer.find("\r\n\r\n");
  const std::size_t status = answer.find(' ');
  if (!answer.starts_with("HTTP/1.") || body == std::string_view::npos || status > body) {
    return make_error(Errc::kBadAnswer, "no HTTP answer");
  }
  if (const std::string_view code = answer.substr(status + 1, 3); code != "200") {
    return make_error(Errc::kRefused, "HTTP status " + std::string(code));
  }
  std::string_view line = answer.substr(body + 4);
  line = line.substr(0, line.find('\n'));
  while (!line.empty() && is_blank(line.front())) {
    line.remove_prefix(1);
  }
  while (!line.empty() && is_blank(line.back())) {
    line.remove_suffix(1);
  }
  return std::string(line);
}

std::string url_of_unit(std::string url, std::string_view unit_name) {
  if (!unit_name.empty()) {
    url += "-";
    url += unit_name;
    url += "?nofix=1";
  }
  return url;
}

Result<std::string> fetch_first_line(const std::string& text, std::chrono::milliseconds timeout) {
  auto url = parse_http_url(text);
  if (!url) {
    return std::move(url).error();
  }
  const HttpTime end = std::chrono::steady_clock::now() + timeout;
  auto socket = connect_to(*url, end);
  if (!socket) {
    return std::move(socket).error();
  }
  const int fd = (*socket)->fd;
  const bool numeric6 = url->host.find(':') != std::string::npos;
  const std::string host = numeric6 ? "[" + url->host + "]" : url->host;
  // 1.0: the answer ends with the connection and is not sent in chunks.
  const std::string request =
      "GET " + url->path + " HTTP/1.0\r\nHost: " + host + ":" + url->port + "\r\n\r\n";
  std::size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = ::send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno != EAGAIN && errno != EINTR) {
      return url_failure(Errc::kConnect, *url, error_text(errno));
    } else if (!socket_ready(fd, POLLOUT, end)) {
      return url_failure(Errc::kTimeout, *url, "no answer in time");
    }
  }
  std::string answer;
  for (;;) {
    char part[4096];
    const ssize_t n = ::recv(fd, part, sizeof part, 0);
    if (n == 0) {
      break;
    }
    if (n > 0) {
      answer.append(part, static_cast<std::size_t>(n));
      if (answer.size() > kAnswerMax) {
        return url_failure(Errc::kBadAnswer, *url, "too long an answer");
      }
    } else if (errno != EAGAIN && errno != EINTR) {
      return url_failure(Errc::kConnect, *url, error_text(errno));
    } else if (!socket_ready(fd, POLLIN, end)) {
      return url_failure(Errc::kTimeout, *url, "no answer in time");
    }
  }
  auto line = first_line_of_answer(answer);
  if (!line) {
    line.error().remark = url_failure(Errc::kBadAnswer, *url, line.error().remark).remark;
  }
  return line;
}

}  // namespace tenon::sdk
