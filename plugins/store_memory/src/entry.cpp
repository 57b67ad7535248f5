#include "store.h"

TENON_PLUGINS(tenon::store_memory::Store);
