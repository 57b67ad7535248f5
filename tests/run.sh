#!/usr/bin/env bash
# Builds everything and runs all tests; ends with "N passed, N failed, N skipped" and fails if anything failed.
#
#   tests/run.sh                 all: release build and tests, sanitizers, fuzzers, format, mixed long run, interop with
#                                unmodified clients
#   tests/run.sh --no-interop    without Java, Go and Node (says so)
#   tests/run.sh --quick         only the release build, its tests and the format check
#
# Logs of every step are in build/logs. JOBS (default: number of cores) is how many compilers and tests run at once.
set -uo pipefail
cd "$(dirname "$0")/.."
interop=yes quick=no
for arg in "$@"; do
  case $arg in
  --no-interop) interop=no ;;
  --quick) quick=yes ;;
  *) sed -n '2,10p' "$0"; exit 2 ;;
  esac
done
[ $quick = no ] || interop=no
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
jobs=${JOBS:-$(nproc)}
logs=build/logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0 broken=()
began=$SECONDS

say() { printf '%s\n' "$*"; }
count() { passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3)); }
bad() { # NAME LOG: one failed step, with the end of its log
  broken+=("$1"); count 0 1 0
  say "FAIL $1, the end of $2:"; tail -n 40 "$2" | sed 's/^/    /'
}
step() { # NAME COMMAND...: one line, output into a log
  local name=$1 log t0=$SECONDS; shift
  log=$logs/${name// /-}.log
  if "$@" >"$log" 2>&1; then say "PASS $name $((SECONDS - t0)) s"; count 1 0 0; else bad "$name" "$log"; return 1; fi
}
tests() { # PRESET [CTEST OPTION...]: the tests of a build, counted one by one
  local name=$1 log=$logs/$1-tests.log t0=$SECONDS line total lost rc=0; shift
  ctest --test-dir "build/$name" --output-on-failure -j "$jobs" --no-tests=error "$@" >"$log" 2>&1 || rc=$?
  line=$(grep -E 'tests passed, [0-9]+ tests failed out of [0-9]+' "$log")
  lost=$(sed -E 's/.*passed, ([0-9]+) tests failed out of ([0-9]+).*/\1/' <<<"$line")
  total=$(sed -E 's/.*passed, ([0-9]+) tests failed out of ([0-9]+).*/\2/' <<<"$line")
  if [ -z "$line" ] || { [ $rc != 0 ] && [ "$lost" = 0 ]; }; then bad "$name tests" "$log"; return; fi
  local dropped; dropped=$(grep -cE '\*\*\*(Skipped|Not Run \(Disabled\))' "$log")
  count $((total - lost - dropped)) "$lost" "$dropped"
  if [ "$lost" = 0 ]; then say "PASS $name tests: $total in $((SECONDS - t0)) s"
  else broken+=("$name tests"); say "FAIL $name tests: $lost of $total failed, the end of $log:"; sed -n '/tests passed,/,$p' "$log" | sed 's/^/    /'; grep -B 5 -A 30 -m 3 -E 'ERROR|WARNING: ThreadSanitizer' "$log" | head -n 90 | sed 's/^/    /'; fi
}
build() { # PRESET [TARGET...]
  local preset=$1; shift
  step "$preset configure" cmake --preset "$preset" && step "$preset build" cmake --build --preset "$preset" -j "$jobs" "${@/#/--target=}"
}
format() { git ls-files '*.h' '*.c' '*.cpp' '*.hpp' | xargs -r clang-format-14 --dry-run -Werror; }
groups=(build test); [ $interop = no ] || groups+=(interop)
bash tests/install_packages.sh "${groups[@]}" || exit 1

step format format
build release && tests release
if [ $quick = no ]; then
  build asan && tests asan
  build tsan && tests tsan
  build fuzz fuzzers tenon_sdk_static && tests fuzz -L fuzz # the SDK has to build with clang too
else
  say "SKIP sanitizers and fuzzers (--quick)"; count 0 0 1
fi
if [ $quick = no ]; then # three minutes in all: all kinds of messages, the broker killed every 20 s, an audit
  step "mixed long run" python3 tests/soak/soak.py --seconds "${SOAK_SECONDS:-140}"
else
  say "SKIP mixed long run (--quick)"; count 0 0 1
fi
if [ $interop = no ]; then
  say "SKIP interop with unmodified Java, Go and Node clients (--no-interop)"; count 0 0 1
elif [ ! -x build/release/bin/tenon ]; then
  say "FAIL interop: build/release/bin/tenon was not built"; count 0 1 0; broken+=(interop)
else
  python3 tests/interop/run.py 2>&1 | tee "$logs/interop.log" | grep -vE '^[0-9]+ passed, ' || true
  if line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$logs/interop.log" | tail -n 1) && [ -n "$line" ]; then
    # shellcheck disable=SC2086
    set -- ${line//[!0-9]/ }
    count "$1" "$2" "$3"
    [ "$2" = 0 ] || broken+=(interop)
  else bad interop "$logs/interop.log"; fi
fi

say "took $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
[ ${#broken[@]} = 0 ] || { printf 'failed: '; printf '%s; ' "${broken[@]}"; echo; }
say "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
