#!/usr/bin/env bash
# The SDK as its users get it: installs the package, builds the examples against it by CMake (shared and static) and by
# pkg-config, and runs them on `tenon dev`. Usage: sdk_package_test.sh BUILD_DIR EXAMPLES_DIR
set -euo pipefail
build=$1 examples=$2
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tenon-sdk-XXXXXX")
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true; rm -rf "$tmp"' EXIT

for component in tenon_api tenon_client; do
  cmake --install "$build" --component $component --prefix "$tmp/prefix" >"$tmp/install.log"
done

mkdir "$tmp/app"
cat >"$tmp/app/CMakeLists.txt" <<X
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES CXX)
find_package(tenon 1.0 REQUIRED)
foreach(name send consume send_async)
  add_executable(\${name} $examples/\${name}.cpp)
  target_link_libraries(\${name} PRIVATE tenon::client)
endforeach()
add_executable(send_static $examples/send.cpp)
target_link_libraries(send_static PRIVATE tenon::client_static)
X
cmake -S "$tmp/app" -B "$tmp/out" -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_BUILD_TYPE=Debug >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
cmake --build "$tmp/out" -j 2 >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }

export PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig:$tmp/prefix/lib/$(cc -print-multiarch)/pkgconfig
# shellcheck disable=SC2046
c++ -std=c++20 "$examples/send.cpp" -o "$tmp/out/send_pc" $(pkg-config --cflags --libs tenon-client) \
  -Wl,-rpath,"$(pkg-config --variable=libdir tenon-client)"

"$build/bin/tenon" dev --memory --namesrv-port 0 --broker-port 0 >"$tmp/server.log" 2>&1 &
server=$!
for _ in $(seq 200); do
  namesrv=$(sed -n 's/.*name server \([0-9.:]*\).*/\1/p' "$tmp/server.log")
  [ -z "$namesrv" ] || break
  sleep 0.05
done
[ -n "$namesrv" ] || { cat "$tmp/server.log"; exit 1; }

for program in send send_static send_pc send_async; do
  "$tmp/out/$program" --namesrv "$namesrv" Package || { echo "$program failed"; exit 1; }
done
"$tmp/out/consume" --namesrv "$namesrv" Package | tee "$tmp/consumed"
[ "$(grep -c 'hello [123]$' "$tmp/consumed")" = 9 ] || { echo "not every message of the three programs was consumed"; exit 1; }
kill -TERM "$server"
wait "$server"
server=
echo ok
