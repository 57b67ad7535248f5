/* Convenience for plug-ins in C that keep no state: the whole boilerplate of one plug-in with one interface as one
 * macro. Not part of the ABI; include it in exactly one file of the plug-in.
 *
 *   static const tenon_selector table = {.size = sizeof table, .select = my_select};
 *   TENON_STATELESS_PLUGIN("org.example.mine", "1.0.0", "what it does", TENON_QUEUE_SELECTOR_IID, table)
 *
 * self is NULL in every function of the table. A plug-in with options or state fills tenon_plugin itself. */
#ifndef TENON_ABI_STATELESS_H
#define TENON_ABI_STATELESS_H

#include "tenon/abi/entry.h"

TENON_EXTERN_C_BEGIN

static inline tenon_status tenon_stateless_ok(void* self, tenon_error* err) TENON_NOEXCEPT {
  (void)self;
  (void)err;
  return TENON_OK;
}

static inline void tenon_stateless_nothing(void* self) TENON_NOEXCEPT {
  (void)self;
}

static inline uint32_t tenon_stateless_one(void) TENON_NOEXCEPT {
  return 1;
}

#define TENON_STATELESS_PLUGIN(plugin_id, plugin_version, plugin_doc, iid, table)               \
  static const char* const tenon_stateless_interfaces[] = {iid, NULL};                          \
  static const tenon_descriptor tenon_stateless_descriptor = {sizeof(tenon_descriptor),         \
                                                              TENON_PLUGIN_REPLACEABLE,         \
                                                              plugin_id,                        \
                                                              NULL,                             \
                                                              NULL,                             \
                                                              plugin_version,                   \
                                                              NULL,                             \
                                                              plugin_doc,                       \
                                                              tenon_stateless_interfaces,       \
                                                              NULL,                             \
                                                              0,                                \
                                                              0};                               \
  static const void* tenon_stateless_interface(void* self, const char* wanted) TENON_NOEXCEPT { \
    (void)self;                                                                                 \
    return strcmp(wanted, iid) == 0 ? &(table) : NULL;                                          \
  }                                                                                             \
  static const tenon_plugin tenon_stateless_instance = {sizeof(tenon_plugin),                   \
                                                        0,                                      \
                                                        NULL,                                   \
                                                        tenon_stateless_ok,                     \
                                                        tenon_stateless_ok,                     \
                                                        NULL,                                   \
                                                        tenon_stateless_nothing,                \
                                                        tenon_stateless_nothing,                \
                                                        tenon_stateless_interface,              \
                                                        NULL,                                   \
                                                        NULL};                                  \
  static const tenon_descriptor* tenon_stateless_describe(uint32_t index) TENON_NOEXCEPT {      \
    return index == 0 ? &tenon_stateless_descriptor : NULL;                                     \
  }                                                                                             \
  static tenon_status tenon_stateless_create(                                                   \
      const char* id, const tenon_host* host, const tenon_plugin** out, tenon_error* err)       \
      TENON_NOEXCEPT {                                                                          \
    (void)host;                                                                                 \
    if (strcmp(id, plugin_id) != 0) {                                                           \
      return tenon_fail(err, TENON_NOT_FOUND, "unknown plug-in id");                            \
    }                                                                                           \
    *out = &tenon_stateless_instance;                                                           \
    return TENON_OK;                                                                            \
  }                                                                                             \
  static const tenon_factory tenon_stateless_factory = {sizeof(tenon_factory),                  \
                                                        0,                                      \
                                                        tenon_stateless_one,                    \
                                                        tenon_stateless_describe,               \
                                                        tenon_stateless_create};                \
  static const void* tenon_stateless_get_factory(const char* id) TENON_NOEXCEPT {               \
    return strcmp(id, TENON_FACTORY_IID) == 0 ? &tenon_stateless_factory : NULL;                \
  }                                                                                             \
  const tenon_entry TENON_PLUGIN_ENTRY_SYMBOL = {TENON_ENTRY_MAGIC,                             \
                                                 sizeof(tenon_entry),                           \
                                                 TENON_ABI_MAJOR,                               \
                                                 TENON_ABI_MINOR,                               \
                                                 NULL,                                          \
                                                 NULL,                                          \
                                                 tenon_stateless_get_factory,                   \
                                                 NULL};

TENON_EXTERN_C_END

#endif
