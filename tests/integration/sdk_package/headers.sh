#!/usr/bin/env bash
# Each public header of the installed SDK compiles alone, without a warning and with nothing but the standard library.
#   headers.sh BUILD_DIR
set -euo pipefail
build=$1
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tenon-headers-XXXXXX")
. "$(dirname "$0")/limited.sh"
prefix=$tmp/prefix

for component in tenon_api tenon_client; do
  quiet 60 cmake --install "$build" --component $component --prefix "$prefix"
done
for compiler in g++ clang++-14; do
  command -v $compiler >/dev/null || { [ $compiler = clang++-14 ] && continue; fail "no $compiler"; }
  for header in $(cd "$prefix/include" && find tenon/sdk.h tenon/testing.h tenon/client*.h tenon/sdk -name '*.h'); do
    (
      name=$tmp/$(tr / _ <<<"$header")
      echo "#include <$header>" >"$name.$compiler.cpp"
      timeout 120 $compiler -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$prefix/include" -fsyntax-only -MD \
        -MF "$name.$compiler.d" "$name.$compiler.cpp" >"$name.$compiler.log" 2>&1 || echo "failed with $?" | tee -a "$name.$compiler.log" >"$name.$compiler.failed"
    ) &
    while [ "$(jobs -r | wc -l)" -ge 2 ]; do wait -n || true; done
  done
done
wait
if ls "$tmp"/*.failed >/dev/null 2>&1; then cat "$tmp"/*.log; fail "a header does not compile alone"; fi
# Everything below /usr/include that is no part of the C or C++ library is third-party.
foreign=$(cat "$tmp"/*.d | tr ' \\' '\n\n' | grep -E '^/usr/(local/)?include/(boost|spdlog|fmt|toml|openssl|lz4|zstd|zlib|libdeflate|tao|CLI|doctest)' || true)
[ -z "$foreign" ] || fail "third-party headers in public ones: $foreign"
for compiler in gcc clang-14; do
  command -v $compiler >/dev/null || continue
  printf '#include <tenon/client.h>\n#include <tenon/abi/plugin.h>\nint main(void) { return 0; }\n' >"$tmp/c.c"
  quiet 120 $compiler -std=c11 -Wall -Wextra -pedantic -Wconversion -Wstrict-prototypes -Werror -I"$prefix/include" -fsyntax-only "$tmp/c.c"
done

echo "$(ls "$tmp"/*.d | wc -l) compilations"
