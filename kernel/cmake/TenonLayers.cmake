# Declares libraries with their layer and refuses, at configure time, an arrow that points up.
#
#   tenon_library(<name> LAYER <n> [SHARED] [PUBLIC <tenon targets>] [PRIVATE <tenon targets>] [EXTERNAL <foreign targets>]
#                 [EXTERNAL_PRIVATE <foreign targets>] SOURCES <files> [HEADERS <public headers below include/>]
#                 [ALONE <sources that are compiled by themselves in a unity build>])
#
# A library may depend on libraries of a lower layer only. Public headers live in include/ and are compiled alone by the target
# all_verify_interface_header_sets; private ones live in src/ and are out of reach for others.

set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

function(tenon_check_layer name layer)
  foreach(dep IN LISTS ARGN)
    string(REPLACE "tenon::" "tenon_" target "${dep}")
    get_property(dep_layer GLOBAL PROPERTY TENON_LAYER_${target})
    if("${dep_layer}" STREQUAL "")
      message(FATAL_ERROR "layering: ${name} depends on ${dep}, which is not declared before it with tenon_library()")
    endif()
    if(NOT dep_layer LESS layer)
      message(FATAL_ERROR "layering: ${name} (layer ${layer}) must not depend on ${target} (layer ${dep_layer})")
    endif()
  endforeach()
endfunction()

function(tenon_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Werror=unused-result
    $<$<BOOL:${TENON_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# Several sources in one compilation, where TENON_UNITY asks for it (the presets with sanitizers): a build from nothing takes
# less than half the time. Sources in ALONE, whose names clash with those of others, stay by themselves. Of the tests only
# programs of many sources, whose fixtures have names of their own, say UNITY.
function(tenon_unity target)
  if(TENON_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    if(ARGN)
      set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endif()
endfunction()

function(tenon_library name)
  cmake_parse_arguments(arg "SHARED" "LAYER" "PUBLIC;PRIVATE;EXTERNAL;EXTERNAL_PRIVATE;SOURCES;HEADERS;ALONE" ${ARGN})
  tenon_check_layer(tenon_${name} ${arg_LAYER} ${arg_PUBLIC} ${arg_PRIVATE})
  set_property(GLOBAL PROPERTY TENON_LAYER_tenon_${name} ${arg_LAYER})
  if(arg_SOURCES)
    if(arg_SHARED)
      add_library(tenon_${name} SHARED ${arg_SOURCES})
    else()
      add_library(tenon_${name} STATIC ${arg_SOURCES})
    endif()
    tenon_compile_options(tenon_${name})
    tenon_unity(tenon_${name} ${arg_ALONE})
    target_link_libraries(tenon_${name} PUBLIC ${arg_PUBLIC} ${arg_EXTERNAL} PRIVATE ${arg_PRIVATE} ${arg_EXTERNAL_PRIVATE})
    target_include_directories(tenon_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
    set(scope PUBLIC)
  else()
    add_library(tenon_${name} INTERFACE)
    target_link_libraries(tenon_${name} INTERFACE ${arg_PUBLIC} ${arg_EXTERNAL})
    target_compile_features(tenon_${name} INTERFACE cxx_std_20)
    set(scope INTERFACE)
  endif()
  add_library(tenon::${name} ALIAS tenon_${name})
  if(arg_HEADERS)
    target_sources(tenon_${name} ${scope} FILE_SET HEADERS BASE_DIRS ${CMAKE_CURRENT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  endif()
endfunction()

# tenon_test(<name> SOURCES <files> LINK <targets> [TIMEOUT <s>] [LABELS <labels>] [UNITY]): a doctest executable below build/<preset>/tests.
function(tenon_test name)
  cmake_parse_arguments(arg "UNITY" "TIMEOUT" "SOURCES;LINK;LABELS;ENVIRONMENT" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  tenon_compile_options(${name})
  if(arg_UNITY)
    tenon_unity(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LINK} tenon_test_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)  # a hang, not a slow machine
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()
