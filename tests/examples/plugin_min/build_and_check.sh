#!/usr/bin/env bash
# Installs the package into a temporary prefix, builds the example out of tree in both ways, checks the exports and
# loads the results: build_and_check.sh BUILD_DIR EXAMPLE_DIR CHECK_PROGRAM
set -euo pipefail
build=$1 example=$2 check=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cmake --install "$build" --component tenon_api --prefix "$tmp/prefix" > "$tmp/install.log"

one_export() {
  local exports
  exports=$(nm -D --defined-only "$1" | awk '{print $2, $3}')
  if [ "$(echo "$exports" | wc -l)" != 1 ] || ! echo "$exports" | grep -q ' tenon_plugin_entry$'; then
    echo "exports of $1 are not just tenon_plugin_entry: $exports"
    exit 1
  fi
}

echo "== find_package(tenon) and tenon_add_plugin"
cmake -S "$example" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_BUILD_TYPE=Release > "$tmp/configure.log" ||
  { cat "$tmp/configure.log"; exit 1; }
cmake --build "$tmp/build" > "$tmp/build.log" || { cat "$tmp/build.log"; exit 1; }
one_export "$tmp/build/org.example.last-queue.tenon.so"
"$check" "$tmp/build/org.example.last-queue.tenon.so"

echo "== pkg-config"
if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig:$tmp/prefix/lib/$(cc -print-multiarch 2> /dev/null || true)/pkgconfig
  # shellcheck disable=SC2046
  cc -std=c11 -Wall -Wextra -pedantic -Werror -fPIC -shared -fvisibility=hidden $(pkg-config --cflags tenon) \
    -Wl,--version-script="$(pkg-config --variable=versionscript tenon)" -Wl,-z,defs -Wl,-z,nodelete \
    "$example/last_queue.c" -o "$tmp/org.example.last-queue.tenon.so"
  one_export "$tmp/org.example.last-queue.tenon.so"
  "$check" "$tmp/org.example.last-queue.tenon.so"
  pkg-config --variable=plugindir tenon | grep -q "tenon/plugins$"
else
  echo "skipped: there is no pkg-config"
fi

echo "== another major version is refused"
mkdir "$tmp/other"
cat > "$tmp/other/CMakeLists.txt" << 'X'
cmake_minimum_required(VERSION 3.20)
project(other LANGUAGES NONE)
find_package(tenon 2.0 REQUIRED)
X
if cmake -S "$tmp/other" -B "$tmp/other/b" -DCMAKE_PREFIX_PATH="$tmp/prefix" > "$tmp/other.log" 2>&1; then
  echo "find_package(tenon 2.0) was accepted"
  exit 1
fi
grep -q 'with requested version "2.0"' "$tmp/other.log"
echo "ok"
