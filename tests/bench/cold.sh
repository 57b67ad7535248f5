#!/usr/bin/env bash
# Sends at half load, alone and while a consumer reads messages that are not in memory: p99 of the sends
# may at most double. Half load is half of what the broker takes in a closed loop.
#
#   bash tests/bench/cold.sh [MIB [SECONDS [SENDS_PER_S]]]     needs build/release/bin
#
# The old messages are written, the broker stops, and their pages leave the page cache (posix_fadvise):
# the reads come from the disk, whatever the size of the memory. TMPDIR names the disk that is meant.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${TENON_BIN:-$PWD/build/release/bin}
mib=${1:-4096}
seconds=${2:-15}
rate=${3:-0}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenon-cold-XXXXXX")
broker=
reader=
stop_broker() {
  if [ -n "$broker" ]; then kill -TERM "$broker" 2>/dev/null && wait "$broker" || true; fi
  broker=
}
stop() {
  if [ -n "$reader" ]; then kill "$reader" 2>/dev/null || true; fi
  stop_broker
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM
port=$(shuf -i 20000-28000 -n 1)
namesrv=$((port + 1000))
start_broker() {
  "$bin/tenon" dev --namesrv-port $namesrv --broker-port "$port" --store "$folder/store" >> "$folder/log" 2>&1 &
  broker=$!
  for _ in $(seq 300); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 "$broker" 2>/dev/null || { cat "$folder/log"; exit 1; }
    sleep 0.1
  done
  exit 1
}
load() { "$bin/overload_bench" "$port" --connections 8 --seconds "$seconds" "$@"; }
tool() { "$bin/tenon" --namesrv 127.0.0.1:$namesrv "$@"; }

start_broker
# A disk that has to write so much may refuse sends, and the tool ends with the first of them.
while [ "$(du -sm "$folder/store" | cut -f1)" -lt "$mib" ]; do
  kill -0 "$broker" 2> /dev/null || { cat "$folder/log"; exit 1; }
  tool bench send --count $(((mib < 1024 ? mib : 1024) * 1024 / 4)) --warmup 0 --size 4096 --window 64 > /dev/null 2>&1 || true
  sync -f "$folder"
done
stop_broker
python3 - "$folder"/store <<'PY'
import os, sys
for at, _, names in os.walk(sys.argv[1]):
    for name in names:
        if "commitlog" in at:
            fd = os.open(os.path.join(at, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
PY
start_broker
if [ "$rate" = 0 ]; then
  rate=$(load --factor 0.01 | tee /dev/stderr | sed -n 's/^capacity: \([0-9]*\).*/\1/p')
fi
echo "== half load, nobody reads"
load --capacity "$rate" --factor 0.5 | tee "$folder/alone"
echo "== half load, a consumer reads $mib MiB of cold messages"
before=$(awk '/read_bytes/ {print $2}' "/proc/$broker/io")
tool bench consume --size 4096 --count 1000000000 > "$folder/read" 2>&1 &
reader=$!
load --capacity "$rate" --factor 0.5 | tee "$folder/reading"
after=$(awk '/read_bytes/ {print $2}' "/proc/$broker/io")
echo "read from the disk meanwhile: $(((after - before) >> 20)) MiB"
kill "$reader" || { cat "$folder/read"; echo "the consumer ended before the load did"; exit 1; }
wait "$reader" || true # by our signal
reader=
p99() { sed -n 's/^stored: .*p99 \([0-9.]*\) ms.*/\1/p' "$1"; }
awk -v a="$(p99 "$folder/alone")" -v b="$(p99 "$folder/reading")" \
  'BEGIN { printf "p99 of sends: %s ms alone, %s ms beside cold reads: %.2f times (bar 2)\n", a, b, b / a }'
