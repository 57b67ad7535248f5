# Builds plug-ins. Used by this project and, installed, by everybody else after find_package(tenon).
#
#   tenon_add_plugin(<id> <sources>... [LINK <targets>...])
#
#     A plug-in in one file, C11 or C++: MODULE target tenon_plugin_<x>, output <id>.tenon.so, one exported symbol.
#     <x> is the id without a leading "tenon.", everything but letters and digits replaced by "_".
#
#     tenon_add_plugin(org.example.audit audit.cpp LINK ZLIB::ZLIB)
#
#   tenon_add_builtin_plugin(<id> LIB <static target> ENTRY <entry.cpp> ENTRY_SYMBOL <name> [LINK <targets>...])
#
#     The same code twice: the MODULE from LIB + entry file, and a static library tenon_plugin_static_<x> (alias
#     tenon::plugin_static_<x>) in which the entry object is called ENTRY_SYMBOL, for PluginRegistry::add_static() in tests and
#     sanitizer builds. The entry file is compiled once per form; in the static form TENON_PLUGIN_ENTRY_SYMBOL is <name> and
#     TENON_PLUGIN_STATIC is 1.
#
#     # plugins/store_file/CMakeLists.txt
#     tenon_library(store_file LAYER 3 PRIVATE tenon::base tenon::proto PUBLIC tenon::plugin SOURCES src/commit_log.cpp ...)
#     tenon_add_builtin_plugin(tenon.store.file LIB tenon::store_file ENTRY src/entry.cpp ENTRY_SYMBOL tenon_entry_store_file)
#
#     // plugins/store_file/src/entry.cpp
#     #include "tenon/plugin.hpp"
#     #include "store.h"
#     TENON_PLUGINS(tenon::store_file::Store)
#
#     // a test that links tenon::plugin_static_store_file
#     extern "C" const tenon_entry tenon_entry_store_file;
#     registry->add_static(&tenon_entry_store_file);
#
# Output goes to TENON_PLUGIN_OUTPUT_DIR if that is set, else to the current binary folder; TENON_PLUGIN_INSTALL_DIR, if set, installs it.

set(TENON_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/tenon_plugin.map")

function(_tenon_plugin_suffix id out)
  if(NOT id MATCHES "^[a-z0-9][a-z0-9.-]*$")
    message(FATAL_ERROR "plug-in id '${id}': lower-case letters, digits, '.' and '-' only, reverse DNS such as org.example.audit")
  endif()
  string(REGEX REPLACE "^tenon\\." "" suffix "${id}")
  string(REGEX REPLACE "[^a-z0-9]" "_" suffix "${suffix}")
  set(${out} ${suffix} PARENT_SCOPE)
endfunction()

function(_tenon_plugin_module target id)
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME "${id}.tenon" SUFFIX ".so"
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${TENON_PLUGIN_MAP}")
  if(TENON_PLUGIN_OUTPUT_DIR)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${TENON_PLUGIN_OUTPUT_DIR}")
  endif()
  target_link_options(${target} PRIVATE "LINKER:--version-script=${TENON_PLUGIN_MAP}" "LINKER:-z,nodelete")
  # The sanitizer runtime is in the executable: its symbols stay undefined in a module.
  get_directory_property(options COMPILE_OPTIONS)
  if(NOT TENON_SANITIZE AND NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS} ${options}" MATCHES "-fsanitize")
    target_link_options(${target} PRIVATE "LINKER:-z,defs")
  endif()
  if(TENON_PLUGIN_INSTALL_DIR)
    install(TARGETS ${target} LIBRARY DESTINATION "${TENON_PLUGIN_INSTALL_DIR}" COMPONENT tenon_plugins)
  endif()
endfunction()

function(tenon_add_plugin id)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  _tenon_plugin_suffix("${id}" suffix)
  add_library(tenon_plugin_${suffix} MODULE ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(tenon_plugin_${suffix} PRIVATE tenon::api ${arg_LINK})
  get_target_property(sources tenon_plugin_${suffix} SOURCES)
  if("${sources}" MATCHES "\\.(cpp|cc|cxx)(;|$)")
    target_link_libraries(tenon_plugin_${suffix} PRIVATE tenon::plugin)
  endif()
  _tenon_plugin_module(tenon_plugin_${suffix} "${id}")
endfunction()

function(tenon_add_builtin_plugin id)
  cmake_parse_arguments(arg "" "LIB;ENTRY;ENTRY_SYMBOL" "LINK" ${ARGN})
  if(NOT arg_LIB OR NOT arg_ENTRY OR NOT arg_ENTRY_SYMBOL)
    message(FATAL_ERROR "tenon_add_builtin_plugin(${id}): LIB, ENTRY and ENTRY_SYMBOL are needed")
  endif()
  _tenon_plugin_suffix("${id}" suffix)
  add_library(tenon_plugin_${suffix} MODULE ${arg_ENTRY})
  add_library(tenon_plugin_static_${suffix} STATIC ${arg_ENTRY})
  add_library(tenon::plugin_static_${suffix} ALIAS tenon_plugin_static_${suffix})
  target_compile_definitions(tenon_plugin_static_${suffix} PRIVATE
    TENON_PLUGIN_ENTRY_SYMBOL=${arg_ENTRY_SYMBOL} TENON_PLUGIN_STATIC=1)
  target_link_libraries(tenon_plugin_${suffix} PRIVATE tenon::api tenon::plugin ${arg_LIB} ${arg_LINK})
  target_link_libraries(tenon_plugin_static_${suffix} PRIVATE tenon::plugin ${arg_LIB} ${arg_LINK} PUBLIC tenon::api)
  foreach(target tenon_plugin_${suffix} tenon_plugin_static_${suffix})
    if(COMMAND tenon_compile_options)
      tenon_compile_options(${target})
    endif()
  endforeach()
  _tenon_plugin_module(tenon_plugin_${suffix} "${id}")
endfunction()
