#include "routes.h"

#include "errors.h"

#include "tenon/base/log.h"
#include "tenon/proto/codes.h"

#include <algorithm>
#include <future>
#include <memory>
#include <random>
#include <set>

namespace tenon::sdk {

std::vector<std::string> split_name_servers(std::string_view text) {
  if (const std::size_t scheme = text.rfind('/'); scheme != std::string_view::npos) {
    text.remove_prefix(scheme + 1);
  }
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!item.empty() && item.front() == ' ') {
      item.remove_prefix(1);
    }
    while (!item.empty() && item.back() == ' ') {
      item.remove_suffix(1);
    }
    if (!item.empty()) {
      out.emplace_back(item);
    }
  }
  return out;
}

std::vector<std::string> shuffled(std::vector<std::string> list, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::shuffle(list.begin(), list.end(), random);
  return list;
}

NameServers::NameServers(std::vector<std::string> list, std::uint32_t seed)
    : seed_(seed),
      list_(shuffled(std::move(list), seed)) {}

std::size_t NameServers::size() const {
  const std::scoped_lock lock(mutex_);
  return list_.size();
}

std::vector<std::string> NameServers::all() const {
  const std::scoped_lock lock(mutex_);
  return list_;
}

bool NameServers::replace(std::vector<std::string> list) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> before = list_;
  std::vector<std::string> after = list;
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  if (before == after) {
    return false;
  }
  const std::string chosen = list_.empty() ? std::string() : list_[index_];
  list_ = shuffled(std::move(list), seed_);
  const auto at = std::find(list_.begin(), list_.end(), chosen);
  index_ = at == list_.end() ? 0 : static_cast<std::size_t>(at - list_.begin());
  return true;
}

std::string NameServers::chosen() const {
  const std::scoped_lock lock(mutex_);
  return list_.empty() ? std::string() : list_[index_];
}

void NameServers::failed(std::string_view address) {
  const std::scoped_lock lock(mutex_);
  if (!list_.empty() && list_[index_] == address) {
    index_ = (index_ + 1) % list_.size();
  }
}

struct Routes::NameServerCall {
  proto::Command command;
  CommandCallback done;
  std::size_t tries_left = 0;
};

Routes::Routes(Calls& calls,
               std::vector<std::string> name_servers,
               std::uint32_t seed,
               std::chrono::milliseconds timeout,
               Listener listener)
    : calls_(calls),
      names_(std::move(name_servers), seed),
      timeout_(timeout),
      listener_(std::move(listener)) {}

TopicInfoPtr Routes::cached(std::string_view topic) const {
  const std::scoped_lock lock(mutex_);
  const auto it = topics_.find(topic);
  return it == topics_.end() ? nullptr : it->second;
}

void Routes::ask_name_server(proto::Command command, CommandCallback done) {
  if (names_.size() == 0) {
    done(make_error(Errc::kNoNameServer, "No name server address, please set it."));
    return;
  }
  try_name_server(std::make_shared<NameServerCall>(
      NameServerCall{std::move(command), std::move(done), names_.size()}));
}

void Routes::try_name_server(const std::shared_ptr<NameServerCall>& call) {
  const std::string address = names_.chosen();
  calls_.start(address, call->command, timeout_, [this, call, address](Result<proto::Command> r) {
    if (r || r.error().is(Errc::kCancelled) || r.error().is(Errc::kBusy)) {
      if (r && unreachable_.exchange(false)) {
        log_info("sdk", "name server answers again peer={}", address);
      }
      call->done(std::move(r));
      return;
    }
    names_.failed(address);
    if (--call->tries_left > 0) {
      try_name_server(call);
      return;
    }
    if (!unreachable_.exchange(true)) {
      log_warn("sdk", "no name server answers last={} reason=\"{}\"", address, r.error().text());
    }
    Error e = std::move(r).error();
    e.code = make_error_code(Errc::kNoNameServer);
    e.outcome_unknown = false;
    call->done(std::move(e));
  });
}

Result<proto::Command> Routes::ask_name_server_ok(proto::Command command) {
  auto promise = std::make_shared<std::promise<Result<proto::Command>>>();
  auto future = promise->get_future();
  ask_name_server(std::move(command),
                  [promise](Result<proto::Command> r) { promise->set_value(std::move(r)); });
  auto answer = future.get();
  if (answer && answer->code != proto::ResponseCode::kSuccess) {
    return from_answer(answer->code, answer->remark, names_.chosen());
  }
  return answer;
}

void Routes::fetch(const std::string& topic, Callback done) {
  {
    const std::scoped_lock lock(mutex_);
    auto& waiters = waiting_[topic];
    waiters.push_back(std::move(done));
    if (waiters.size() > 1) {
      return;
    }
  }
  proto::Command c = make_request(proto::RequestCode::kGetRouteinfoByTopic);
  c.set("topic", topic);
  c.set("acceptStandardJsonOnly", std::string_view("true"));
  ask_name_server(std::move(c), [this, topic](Result<proto::Command> answer) {
    on_route(topic, std::move(answer));
  });
}

void Routes::on_route(const std::string& topic, Result<proto::Command> answer) {
  Result<TopicInfoPtr> result = TopicInfoPtr();
  if (!answer) {
    result = std::move(answer).error();
  } else if (answer->code != proto::ResponseCode::kSuccess) {
    result = from_answer(answer->code, answer->remark, names_.chosen());
  } else {
    auto route = proto::decode_topic_route(answer->body);
    if (route.has_error()) {
      result = from_base(route.error(), Errc::kBadAnswer);
    } else {
      result = store(topic, std::move(route).value(), false);
    }
  }
  std::vector<Callback> waiters;
  {
    const std::scoped_lock lock(mutex_);
    const auto it = waiting_.find(topic);
    waiters = std::move(it->second);
    waiting_.erase(it);
  }
  for (Callback& waiter : waiters) {
    waiter(result);
  }
}

TopicInfoPtr Routes::store(const std::string& topic, proto::TopicRoute route, bool from_template) {
  auto made = std::make_shared<TopicInfo>(make_topic_info(topic, std::move(route)));
  made->from_template = from_template;
  {
    const std::scoped_lock lock(mutex_);
    for (const proto::BrokerData& b : made->route.brokers) {
      brokers_[b.broker_name] = b.addrs;
    }
    TopicInfoPtr& known = topics_[topic];
    if (known && known->route == made->route && known->from_template == from_template) {
      return known;
    }
    known = made;
  }
  log_debug("sdk",
            "route topic={} write_queues={} read_queues={}",
            topic,
            made->publish.size(),
            made->subscribe.size());
  if (listener_) {
    listener_(made);
  }
  return made;
}

void Routes::resolve(const std::string& topic,
                     const std::string& create_key,
                     int default_queues,
                     Callback done) {
  if (TopicInfoPtr known = cached(topic); known && !known->publish.empty()) {
    done(std::move(known));
    return;
  }
  fetch(topic, [this, topic, create_key, default_queues, done](Result<TopicInfoPtr> r) {
    const bool unknown_topic = !r && r.error().response == proto::ResponseCode::kTopicNotExist;
    if (!unknown_topic) {
      if (r && (*r)->publish.empty()) {
        done(make_error(Errc::kNoRoute, "No route info of this topic: " + topic));
        return;
      }
      done(std::move(r));
      return;
    }
    // Trap: the route of the topic it will be created like, not an empty list (client §2.5).
    fetch(create_key, [this, topic, default_queues, done](Result<TopicInfoPtr> like) {
      if (!like || (*like)->publish.empty()) {
        done(make_error(Errc::kNoRoute, "No route info of this topic: " + topic));
        return;
      }
      TopicInfoPtr made = store(topic, route_from_template((*like)->route, default_queues), true);
      if (made->publish.empty()) {
        done(make_error(Errc::kNoRoute, "No route info of this topic: " + topic));
        return;
      }
      done(std::move(made));
    });
  });
}

Result<TopicInfoPtr> Routes::fetch_blocking(const std::string& topic) {
  auto promise = std::make_shared<std::promise<Result<TopicInfoPtr>>>();
  auto future = promise->get_future();
  fetch(topic, [promise](Result<TopicInfoPtr> r) { promise->set_value(std::move(r)); });
  return future.get();
}

Result<TopicInfoPtr> Routes::resolve_blocking(const std::string& topic,
                                              const std::string& create_key,
                                              int default_queues) {
  auto promise = std::make_shared<std::promise<Result<TopicInfoPtr>>>();
  auto future = promise->get_future();
  resolve(topic, create_key, default_queues, [promise](Result<TopicInfoPtr> r) {
    promise->set_value(std::move(r));
  });
  return future.get();
}

std::string Routes::address(std::string_view broker, std::int64_t id, bool only_this) const {
  const std::scoped_lock lock(mutex_);
  const auto it = brokers_.find(broker);
  if (it == brokers_.end() || it->second.empty()) {
    return {};
  }
  const auto exact = it->second.find(id);
  if (exact != it->second.end()) {
    return exact->second;
  }
  if (only_this) {
    return {};
  }
  if (id != 0) {
    if (const auto next = it->second.find(id + 1); next != it->second.end()) {
      return next->second;
    }
  }
  return it->second.begin()->second;
}

std::vector<Routes::Peer> Routes::peers() const {
  const std::scoped_lock lock(mutex_);
  std::vector<Peer> out;
  for (const auto& [name, addresses] : brokers_) {
    for (const auto& [id, address] : addresses) {
      out.push_back({name, id, address});
    }
  }
  return out;
}

void Routes::learn(const proto::BrokerData& broker) {
  const std::scoped_lock lock(mutex_);
  brokers_[broker.broker_name] = broker.addrs;
}

std::vector<std::string> Routes::clean_addresses() {
  const std::scoped_lock lock(mutex_);
  std::set<std::string> named;
  for (const auto& [topic, info] : topics_) {
    for (const proto::BrokerData& b : info->route.brokers) {
      for (const auto& [id, address] : b.addrs) {
        named.insert(address);
      }
    }
  }
  std::vector<std::string> gone;
  for (auto broker = brokers_.begin(); broker != brokers_.end();) {
    std::erase_if(broker->second, [&](const auto& entry) {
      if (named.count(entry.second) != 0) {
        return false;
      }
      gone.push_back(entry.second);
      return true;
    });
    broker = broker->second.empty() ? brokers_.erase(broker) : std::next(broker);
  }
  return gone;
}

}  // namespace tenon::sdk
