/* What a plug-in exports and how instances are made: one constant object, a factory, descriptors.
 */
#ifndef TENON_ABI_ENTRY_H
#define TENON_ABI_ENTRY_H

#include "tenon/abi/types.h"

TENON_EXTERN_C_BEGIN

#define TENON_FACTORY_IID "tenon.factory/1"

/* tenon_host.side: which kind of process loads the plug-in. */
enum {
  TENON_SIDE_BROKER = 1,
  TENON_SIDE_CLIENT = 2,
  TENON_SIDE_NAMESRV = 4,
  TENON_SIDE_TEST_KIT = 8
};

/* The host as an instance sees it. Valid until the instance's destroy has returned. */
typedef struct tenon_host {
  uint32_t size;
  uint16_t abi_major, abi_minor;
  void* ctx; /* first argument of get_interface and of every function of every host service */
  tenon_str name, version;
  uint32_t side; /* TENON_SIDE_... */
  uint32_t reserved0;
  /* [any-thread] Host service by id (host.h), NULL = not there. Adopt it with tenon_adopt(). */
  TENON_FN(const void*, get_interface, void* ctx, const char* iid);
} tenon_host;

/* tenon_config_key.type, also the type argument of tenon_host_config.get. In brackets: what get
 * writes. */
enum {
  TENON_TYPE_BOOL = 1,     /* uint32_t, 0 or 1 */
  TENON_TYPE_INT = 2,      /* int64_t */
  TENON_TYPE_FLOAT = 3,    /* double; accepts an integer */
  TENON_TYPE_STRING = 4,   /* tenon_str */
  TENON_TYPE_DURATION = 5, /* int64_t, milliseconds: "250ms" "5s" "2m" "1h" "3d", or an integer if
                              the key ends in _ms */
  TENON_TYPE_BYTES =
      6, /* uint64_t: "64KiB" "1GiB" (powers of 1024), or an integer if the key ends in _bytes */
  TENON_TYPE_ARRAY = 7, /* only with child */
  TENON_TYPE_TABLE = 8  /* only with child */
};
enum { TENON_KEY_REQUIRED = 1, TENON_KEY_RELOADABLE = 2, TENON_KEY_SECRET = 4 };

/* One option of the plug-in, for the list command and for the check of misspelt keys. */
typedef struct tenon_config_key {
  uint32_t size;
  uint32_t type; /* TENON_TYPE_... */
  const char *name, *default_text, *doc;
  uint32_t flags; /* TENON_KEY_... */
  uint32_t reserved0;
} tenon_config_key;

enum {
  TENON_PLUGIN_SINGLETON = 1,   /* at most one instance per process */
  TENON_PLUGIN_REPLACEABLE = 2, /* may be replaced at run time */
  TENON_PLUGIN_OWNS_STATE = 4,  /* writes files; never instantiated twice on one directory */
  TENON_PLUGIN_STARTS_THREADS = 8,
  TENON_PLUGIN_EXPERIMENTAL = 16
};

/* Static storage of the plug-in, valid until deinit. Texts are UTF-8, NUL-terminated; id and
 * version are mandatory, the others may be NULL. */
typedef struct tenon_descriptor {
  uint32_t size;
  uint32_t flags; /* TENON_PLUGIN_... */
  const char *id, *name, *vendor, *version, *url,
      *doc;                      /* id: [a-z0-9][a-z0-9.-]*, at most 64 bytes, reverse DNS */
  const char* const* interfaces; /* NULL-terminated: what instances may offer */
  const tenon_config_key* keys;
  uint32_t key_count;
  uint32_t reserved0;
} tenon_descriptor;

/* An instance: created -> inited -> active <-> inited -> destroyed, no other transitions. Owned by
 * the plug-in, constant until destroy. A failed activate leaves the instance inited. */
typedef struct tenon_plugin {
  uint32_t size;
  uint32_t reserved0;
  void* self; /* first argument of every function of every interface of this instance */
  /* [control, created] Reads configuration, fetches host services; may read files. After a failure
   * the host calls destroy. */
  TENON_FN(tenon_status, init, void* self, tenon_error* err);
  /* [control, inited] Starts threads, opens ports; may block. Storage: after recover. */
  TENON_FN(tenon_status, activate, void* self, tenon_error* err);
  /* [control, active] Optional. Accepts no new work; PENDING = token is completed when all accepted
   * work is done. Does not block. */
  TENON_FN(tenon_status, quiesce, void* self, tenon_token token, tenon_error* err);
  /* [control, active] Stops and JOINS every thread, cancels timers. After it the plug-in runs no
   * code and calls no host service except log. May block up to the shutdown timeout. */
  TENON_FN(void, deactivate, void* self);
  /* [control, not active] Frees everything. The host has released all holds before. */
  TENON_FN(void, destroy, void* self);
  /* [any-thread, after init] Interface by id; the same answer every time, valid until destroy; NULL
   * = not offered. */
  TENON_FN(const void*, get_interface, void* self, const char* iid);
  /* [control, active] Optional. RELOADABLE keys changed; on an error the old settings stay. */
  TENON_FN(tenon_status, reconfigure, void* self, tenon_error* err);
  /* [worker] Optional report for operators; may block. */
  TENON_FN(void, status, void* self, const tenon_sink* out);
} tenon_plugin;

typedef struct tenon_factory {
  uint32_t size;
  uint32_t reserved0;
  /* [any-thread] Number of descriptors, constant after init. */
  TENON_FN(uint32_t, count, void);
  /* [any-thread] NULL if index >= count. */
  TENON_FN(const tenon_descriptor*, descriptor, uint32_t index);
  /* [control] Allocates an instance; calls no host service (the host may not know the instance
   * yet). Keep host, copy the prefix you know. NOT_FOUND = unknown id. */
  TENON_FN(tenon_status,
           create,
           const char* id,
           const tenon_host* host,
           const tenon_plugin** out,
           tenon_error* err);
} tenon_factory;

/* In memory, read as bytes: "TENONPLG". */
#define TENON_ENTRY_MAGIC UINT64_C(0x474c504e4f4e4554)

/* The one exported object. Offsets 0 to 39 are frozen for ever, across majors, so that every host
 * can read every plug-in far enough to refuse it politely. */
typedef struct tenon_entry {
  uint64_t magic;                /* TENON_ENTRY_MAGIC */
  uint32_t size;                 /* sizeof(tenon_entry) of the header the plug-in was built with */
  uint16_t abi_major, abi_minor; /* TENON_ABI_MAJOR, TENON_ABI_MINOR of that header */
  /* [control] Once per mapping, before anything else; path = the file, empty if linked in. Cheap:
   * no threads, files or sockets, because listing calls it. May be NULL. */
  TENON_FN(tenon_status, init, tenon_str path, tenon_error* err);
  /* [control] After the last instance is destroyed; init and deinit count. May be NULL. */
  TENON_FN(void, deinit, void);
  /* [any-thread] TENON_FACTORY_IID -> const tenon_factory *, NULL = unknown. */
  TENON_FN(const void*, get_factory, const char* factory_id);
  const char* build_info; /* compiler, flags, commit; shown by the list command; may be NULL */
} tenon_entry;

/* Name of the entry object. Only a plug-in that is linked statically, together with others,
 * replaces it. */
#ifndef TENON_PLUGIN_ENTRY_SYMBOL
#define TENON_PLUGIN_ENTRY_SYMBOL tenon_plugin_entry
#endif
/* The declaration matters: a const object of a C++ file is not exported without it. */
extern __attribute__((visibility("default"))) const tenon_entry TENON_PLUGIN_ENTRY_SYMBOL;

TENON_ASSERT_SIZE(tenon_host, 64);
TENON_ASSERT_SIZE(tenon_config_key, 40);
TENON_ASSERT_SIZE(tenon_descriptor, 80);
TENON_ASSERT_SIZE(tenon_plugin, 80);
TENON_ASSERT_SIZE(tenon_factory, 32);
TENON_ASSERT_SIZE(tenon_entry, 48);
TENON_ASSERT_OFFSET(tenon_entry, magic, 0);
TENON_ASSERT_OFFSET(tenon_entry, size, 8);
TENON_ASSERT_OFFSET(tenon_entry, abi_major, 12);
TENON_ASSERT_OFFSET(tenon_entry, abi_minor, 14);
TENON_ASSERT_OFFSET(tenon_entry, init, 16);
TENON_ASSERT_OFFSET(tenon_entry, deinit, 24);
TENON_ASSERT_OFFSET(tenon_entry, get_factory, 32);
TENON_ASSERT_OFFSET(tenon_entry, build_info, 40);

TENON_EXTERN_C_END

#endif
