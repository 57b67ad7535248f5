// The keys of broker::BrokerConfig.
#pragma once

#include "tenon/broker/config.h"
#include "tenon/config/visitor.h"

namespace tenon::app {

void describe(config::Visitor& v, broker::BrokerConfig& c);

}  // namespace tenon::app
