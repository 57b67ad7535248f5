// Asks a producer what became of its transaction: CHECK_TRANSACTION_STATE, one-way (spec: broker
// §13.4, remoting §5.1).
#pragma once

#include "client/producers.h"
#include "txn/half.h"

#include "tenon/net/connection.h"

#include <atomic>
#include <cstdint>
#include <string_view>

namespace tenon::broker {

/// Thread: any.
class CheckBack {
 public:
  explicit CheckBack(const Producers& producers)
      : producers_(producers) {}

  bool online(std::string_view group) const;
  /// A live producer of the group, each in turn. Null: there is none, or all are behind in reading
  /// (`busy` is then true).
  net::ConnectionPtr next(std::string_view group, bool& busy);
  /// @param copy  the record that stands for the transaction, as it was stored
  void send(const net::ConnectionPtr& producer, const Half& half, const proto::MessageRecord& copy);

 private:
  const Producers& producers_;
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<std::int32_t> opaque_{0};
};

}  // namespace tenon::broker
