// The client SDK: include this one.
#pragma once

#include "tenon/sdk/admin.h"
#include "tenon/sdk/client.h"
#include "tenon/sdk/credentials.h"
#include "tenon/sdk/hooks.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/producer.h"
#include "tenon/sdk/pull_consumer.h"
#include "tenon/sdk/push_consumer.h"
#include "tenon/sdk/result.h"
#include "tenon/sdk/task.h"
#include "tenon/sdk/tls.h"
#include "tenon/sdk/transaction.h"
