#!/usr/bin/env bash
# Every public header alone, as C and C++ of every year, without a warning; the C++ glue as C++20; and a function
# that may throw is refused by the compiler where function types know about exceptions.
#   compile_matrix.sh SOURCE_DIR "C COMPILERS" "C++ COMPILERS"
set -uo pipefail
source=$1
read -ra ccs <<< "$2"
read -ra cxxs <<< "$3"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
warnings=(-pedantic -Wall -Wextra -Wpadded -Wconversion -Wundef -Werror -fsyntax-only)
failed=0
runs=0

compile() {  # compiler, standard, file, more flags
  runs=$((runs + 1))
  if ! "$1" -std="$2" -I"$source/api/include" "${@:4}" "$3" > "$tmp/log" 2>&1; then
    echo "FAILED: $1 -std=$2 $(head -1 "$3")"
    head -5 "$tmp/log"
    failed=1
  fi
}

all=""
for header in "$source"/api/include/tenon/abi/*.h "$source"/api/include/tenon/draft/*.h; do
  line="#include \"${header#"$source"/api/include/}\""
  name=$(basename "$header" .h)
  echo "$line" > "$tmp/$name.c"
  echo "$line" > "$tmp/$name.cpp"
  all+="$line"$'\n'
  for cc in "${ccs[@]}"; do compile "$cc" c11 "$tmp/$name.c" "${warnings[@]}"; done
  for cxx in "${cxxs[@]}"; do compile "$cxx" c++11 "$tmp/$name.cpp" "${warnings[@]}"; done
done
printf '/* all headers */\n%s' "$all" > "$tmp/all.c"
cp "$tmp/all.c" "$tmp/all.cpp"
for cc in "${ccs[@]}"; do for s in c11 c17; do compile "$cc" $s "$tmp/all.c" "${warnings[@]}"; done; done
for cxx in "${cxxs[@]}"; do
  for s in c++11 c++14 c++17 c++20; do compile "$cxx" $s "$tmp/all.cpp" "${warnings[@]}"; done
done

printf '#include "tenon/plugin.hpp"\n' > "$tmp/glue.cpp"
for cxx in "${cxxs[@]}"; do
  compile "$cxx" c++20 "$tmp/glue.cpp" -I"$source/api/cpp/include" -Wall -Wextra -pedantic -Wconversion -Wshadow -Werror -fsyntax-only
done

cat > "$tmp/throwing.cpp" << 'X'
#include "tenon/abi/plugin.h"
static int32_t pick(void *, const tenon_queue_set *, const tenon_select *) { throw 1; }
const tenon_selector table = {sizeof(tenon_selector), 0, nullptr, nullptr, pick, nullptr, nullptr};
X
for cxx in "${cxxs[@]}"; do
  compile "$cxx" c++14 "$tmp/throwing.cpp" -fsyntax-only
  for s in c++17 c++20; do
    runs=$((runs + 1))
    if "$cxx" -std=$s -I"$source/api/include" -fsyntax-only "$tmp/throwing.cpp" > "$tmp/log" 2>&1; then
      echo "FAILED: $cxx -std=$s accepts a throwing function in an interface"
      failed=1
    elif ! grep -q noexcept "$tmp/log"; then
      echo "FAILED: $cxx -std=$s refuses the throwing function for another reason:"
      head -3 "$tmp/log"
      failed=1
    fi
  done
done
echo "$runs compilations with ${ccs[*]} ${cxxs[*]}"
exit $failed
