/* One small selector in C11, built in many variants: each breaks one rule of the entry, or has a table of another size. */
#include "tenon/abi/plugin.h"

#include <stdlib.h>

#ifndef VARIANT_ID
#define VARIANT_ID "org.example.variant"
#endif
#ifndef VARIANT_VERSION
#define VARIANT_VERSION "1.0.0"
#endif
#ifndef VARIANT_MAJOR
#define VARIANT_MAJOR TENON_ABI_MAJOR
#endif
#ifndef VARIANT_MAGIC
#define VARIANT_MAGIC TENON_ENTRY_MAGIC
#endif
#ifndef VARIANT_ENTRY_SIZE
#define VARIANT_ENTRY_SIZE sizeof(tenon_entry)
#endif
#ifndef VARIANT_INTERFACE
#define VARIANT_INTERFACE TENON_QUEUE_SELECTOR_IID
#endif

typedef struct instance {
  tenon_plugin table;
} instance;

#if defined(VARIANT_NEWER_TABLE)
/* A table of a later minor: two members more. */
typedef struct newer_selector {
  tenon_selector base;
  int32_t (*select_v2)(void* self);
  uint64_t more;
} newer_selector;
#endif

static int32_t pick(void* self, const tenon_queue_set* set, const tenon_select* how) {
  (void)self;
  (void)how;
  return set->count == 0 ? TENON_EMPTY : (int32_t)(set->count - 1);
}

static const void* get_interface(void* self, const char* iid) {
  (void)self;
  if (!tenon_str_eq(tenon_str_of(iid), tenon_str_of(TENON_QUEUE_SELECTOR_IID))) {
    return NULL;
  }
#if defined(VARIANT_NEWER_TABLE)
  {
    static const newer_selector t = {{sizeof t, 0, NULL, NULL, pick, NULL, NULL}, NULL, 7};
    return &t;
  }
#elif defined(VARIANT_OLDER_TABLE)
  {
    /* As if report and stats did not exist yet; what follows in memory must not be read. */
    static const tenon_selector t = {offsetof(tenon_selector, report),
                                     0,
                                     NULL,
                                     NULL,
                                     pick,
                                     (void (*)(void*, const tenon_send_report*, size_t, size_t))1,
                                     (void (*)(void*, const tenon_sink*))1};
    return &t;
  }
#elif defined(VARIANT_NULL_MEMBER)
  {
    static const tenon_selector t = {sizeof t, 0, NULL, NULL, NULL, NULL, NULL};
    (void)pick;
    return &t;
  }
#else
  {
    static const tenon_selector t = {sizeof t, 0, NULL, NULL, pick, NULL, NULL};
    return &t;
  }
#endif
}

static tenon_status init(void* self, tenon_error* err) {
  (void)self;
#if defined(VARIANT_INSTANCE_INIT_FAILS)
  return tenon_fail(err, TENON_BUSY, "the moon is full");
#else
  (void)err;
  return TENON_OK;
#endif
}

static tenon_status activate(void* self, tenon_error* err) {
  (void)self;
  (void)err;
  return TENON_OK;
}

static void deactivate(void* self) {
  (void)self;
}

static void destroy(void* self) {
  free(self);
}

static const char* const interfaces[] = {VARIANT_INTERFACE, NULL};
static const tenon_config_key keys[] = {
    {sizeof(tenon_config_key), TENON_TYPE_INT, "weight", "1", "how much", 0, 0}};
static const tenon_descriptor descriptors[] = {
    {sizeof(tenon_descriptor),
     TENON_PLUGIN_REPLACEABLE,
     VARIANT_ID,
     "Variant",
     "Example",
     VARIANT_VERSION,
     NULL,
     NULL,
     interfaces,
     keys,
     1,
     0},
#if defined(VARIANT_TWO)
    {sizeof(tenon_descriptor),
     0,
     VARIANT_TWO,
     "Second",
     "Example",
     VARIANT_VERSION,
     NULL,
     NULL,
     interfaces,
     NULL,
     0,
     0},
#endif
};

static uint32_t count(void) {
  return sizeof descriptors / sizeof descriptors[0];
}

static const tenon_descriptor* descriptor(uint32_t i) {
  return i < count() ? &descriptors[i] : NULL;
}

static tenon_status create(const char* id,
                           const tenon_host* host,
                           const tenon_plugin** out,
                           tenon_error* err) {
  instance* me = calloc(1, sizeof *me);
  (void)id;
  (void)host;
  if (!me) {
    return tenon_fail(err, TENON_NOMEM, "out of memory");
  }
  me->table.size = sizeof me->table;
  me->table.self = me;
  me->table.init = init;
  me->table.activate = activate;
  me->table.deactivate = deactivate;
  me->table.destroy = destroy;
  me->table.get_interface = get_interface;
  *out = &me->table;
  return TENON_OK;
}

static const void* get_factory(const char* id) {
  static const tenon_factory factory = {sizeof factory, 0, count, descriptor, create};
#if defined(VARIANT_NO_FACTORY)
  (void)factory;
  (void)id;
  return NULL;
#else
  return tenon_str_eq(tenon_str_of(id), tenon_str_of(TENON_FACTORY_IID)) ? &factory : NULL;
#endif
}

static tenon_status entry_init(tenon_str path, tenon_error* err) {
  (void)path;
#if defined(VARIANT_ENTRY_INIT_FAILS)
  return tenon_fail(err, TENON_DENIED, "no licence for this machine");
#else
  (void)err;
  return TENON_OK;
#endif
}

const tenon_entry tenon_plugin_entry = {VARIANT_MAGIC,
                                        VARIANT_ENTRY_SIZE,
                                        VARIANT_MAJOR,
                                        TENON_ABI_MINOR,
                                        entry_init,
                                        NULL,
                                        get_factory,
                                        "test"};
