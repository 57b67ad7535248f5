# Third-party packages, each behind one target; macros that change an ABI are set here and nowhere else.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.81 REQUIRED)

add_library(tenon_ext_boost INTERFACE)
target_link_libraries(tenon_ext_boost INTERFACE Boost::headers)

add_library(tenon_ext_asio INTERFACE)
target_link_libraries(tenon_ext_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(tenon_ext_asio INTERFACE BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED)
if(TENON_SANITIZE MATCHES "thread")
  # g++ warns about every fence of Asio's handlers; what they order is ordered by its locks as well.
  target_compile_options(tenon_ext_asio INTERFACE -Wno-tsan)
endif()

find_package(OpenSSL REQUIRED)

add_library(tenon_ext_dll INTERFACE)
target_link_libraries(tenon_ext_dll INTERFACE Boost::headers ${CMAKE_DL_LIBS})
target_compile_definitions(tenon_ext_dll INTERFACE BOOST_DLL_USE_STD_FS)

find_library(TENON_LZ4 lz4 REQUIRED)
find_library(TENON_ZSTD zstd REQUIRED)
find_library(TENON_DEFLATE deflate REQUIRED)

# PEGTL: headers only, kept as system headers so that their warnings are not ours.
find_path(TENON_PEGTL tao/pegtl.hpp REQUIRED)
add_library(tenon_ext_pegtl INTERFACE)
target_include_directories(tenon_ext_pegtl SYSTEM INTERFACE ${TENON_PEGTL})
