#!/usr/bin/env bash
# The SDK as its users get it. Installs the package from the build tree and checks: the shared libraries export nothing but the
# API and the archive hides the rest; programs are built by CMake (shared, static, C only, with a Boost and an spdlog of their own, with the broker for tests), by
# pkg-config and as a part of another project, and run on an in-process broker.
#   test.sh BUILD_DIR SOURCE_DIR WITH_BROKER
set -euo pipefail
build=$1 source=$2 with_broker=$3
here=$source/tests/integration/sdk_package examples=$source/sdk/examples
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tenon-sdk-XXXXXX")
. "$here/limited.sh"
prefix=$tmp/prefix

for component in tenon_api tenon_client; do
  quiet 60 cmake --install "$build" --component $component --prefix "$prefix"
done
libdir=$(dirname "$(find "$prefix" -name libtenon.so)")

# -- symbols; a grep that finds nothing odd ends with 1, which is the good case
symbols() { nm -DC --defined-only "$1" | cut -d' ' -f3- | sed 's/@@.*//; s/^\(typeinfo\|typeinfo name\|vtable\|guard variable\) for //' | grep -vE '^TENON_(CXX_)?1$' | sort -u; }
odd=$(symbols "$libdir/libtenon.so" | grep -vE '^(tenon::sdk::|tenon_(admin|client|producer|consumer|delivery|pull|transaction)_[a-z_]+$)' || true)
[ -z "$odd" ] || fail "libtenon.so exports more than its API: $odd"
odd=$(symbols "$libdir/libtenon_testing.so" | grep -vE '^tenon::testing::' || true)
[ -z "$odd" ] || fail "libtenon_testing.so exports more than its API: $odd"
declared=$(grep -ohE '\btenon_(admin|client|producer|consumer|delivery|pull|transaction)_[a-z_]+\(' "$prefix"/include/tenon/client*.h | tr -d '(' | grep -v '_fn$' | sort -u)
exported=$(nm -D --defined-only "$libdir/libtenon.so" | grep -oE 'tenon_[a-z_]+@@TENON_1$' | sed 's/@@.*//' | sort -u)
[ "$declared" = "$exported" ] || { diff <(echo "$declared") <(echo "$exported"); fail "C functions declared (<) and exported with version TENON_1 (>) differ"; }
for library in tenon tenon_testing; do
  readelf -d "$libdir/lib$library.so" | grep -q "SONAME.*\[lib$library.so.1\]" || fail "SONAME of lib$library.so"
done
odd=$(nm -gC --defined-only "$libdir/libtenon.a" 2>/dev/null | grep -E ' [TDBR] ' | cut -d' ' -f3- | grep -vE '^(tenon::sdk::|tenon_(admin|client|producer|consumer|delivery|pull|transaction)_|(typeinfo|typeinfo name|vtable) for tenon::sdk::)' || true)
[ -z "$odd" ] || fail "libtenon.a shows more than its API: $odd"
odd=$(nm -gC --defined-only "$libdir/libtenon.a" 2>/dev/null | cut -d' ' -f3- | grep -E '^boost::' | head -5 || true)
[ -z "$odd" ] || fail "libtenon.a shows its Boost: $odd"

# -- programs
configure() { quiet 120 cmake -S "$1" -B "$2" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DEXAMPLES="$examples" "${@:3}"; }
configure "$here" "$tmp/out"
quiet 240 cmake --build "$tmp/out" -j 2
configure "$here/c_only" "$tmp/c"
quiet 240 cmake --build "$tmp/c"
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
quiet 120 c++ -std=c++20 "$examples/send.cpp" -o "$tmp/out/send_pc" $(pkg-config --cflags --libs tenon-client) -Wl,-rpath,"$libdir"
# shellcheck disable=SC2046
quiet 120 c++ -std=c++20 "$here/tested.cpp" -o "$tmp/out/tested_pc" $(pkg-config --cflags --libs tenon-testing) -Wl,-rpath,"$libdir"
# The library is built by g++; programs may be built by clang (with g++'s standard library).
clang=()
if command -v clang++-14 >/dev/null; then
  clang=(send_clang)
  # shellcheck disable=SC2046
  quiet 120 clang++-14 -std=c++20 -Wall -Wextra -Werror "$examples/send_async.cpp" -o "$tmp/out/send_clang" $(pkg-config --cflags --libs tenon-client) -Wl,-rpath,"$libdir"
fi

quiet 60 "$tmp/out/tested"
quiet 60 "$tmp/out/tested_pc"
for program in app send_static send_pc send_async foreign_shared foreign_static "${clang[@]}"; do
  quiet 60 "$with_broker" --limit 45 "$tmp/out/$program" --namesrv {} Package
done
quiet 60 "$with_broker" --limit 45 --topic Package "$tmp/c/c_client" Package

# -- as a part of another project: everything that is needed is found; building it would build all again
configure "$here/embedded" "$tmp/embedded" -DSOURCE="$source"
for target in app app_static app_test; do
  quiet 120 ninja -C "$tmp/embedded" -n $target
  grep -qE 'Linking CXX executable .*'$target "$tmp/log" || { tail -5 "$tmp/log"; fail "no rule links $target"; }
done
echo ok
