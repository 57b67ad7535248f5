# tenon_fuzz(<name> SOURCES <files> LINK <targets> [CORPUS <folder>] [SECONDS <n>]): a libFuzzer executable and a test
# with the label "fuzz" that runs it for a few seconds (5 unless given) from the seeds in CORPUS, with the same random seed each time. Does nothing unless
# TENON_FUZZ is on (preset fuzz: clang with AddressSanitizer and UndefinedBehaviorSanitizer). Findings and new inputs go
# to build/<preset>/fuzz/<name>; run one of them with: <name> FILE. Build them all: cmake --build --preset fuzz --target fuzzers
function(tenon_fuzz name)
  if(NOT TENON_FUZZ)
    return()
  endif()
  cmake_parse_arguments(arg "" "CORPUS;SECONDS" "SOURCES;LINK" ${ARGN})
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_executable(${name} ${arg_SOURCES})
  add_dependencies(fuzzers ${name})
  tenon_compile_options(${name})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  if(NOT arg_SECONDS)
    set(arg_SECONDS 5)
  endif()
  set(work ${PROJECT_BINARY_DIR}/fuzz/${name})
  file(MAKE_DIRECTORY ${work})
  if(arg_CORPUS)
    cmake_path(ABSOLUTE_PATH arg_CORPUS)
  endif()
  add_test(NAME ${name}
    COMMAND ${name} -seed=1 -max_total_time=${arg_SECONDS} -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1
      -artifact_prefix=${work}/finding- ${work} ${arg_CORPUS})
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120
    ENVIRONMENT "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1")
endfunction()
