/* Linked without -z defs: a function that no library has. */
#include "tenon/abi/entry.h"

extern const void* no_such_function_anywhere(const char* id);

const tenon_entry tenon_plugin_entry = {TENON_ENTRY_MAGIC,
                                        sizeof(tenon_entry),
                                        TENON_ABI_MAJOR,
                                        TENON_ABI_MINOR,
                                        NULL,
                                        NULL,
                                        no_such_function_anywhere,
                                        NULL};
