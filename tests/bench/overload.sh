#!/usr/bin/env bash
# Twice the sends that a broker can take: starts one with a store on disk and offers them, open loop,
# over many connections. Prints latencies of stored and refused sends, dropped connections, memory.
#
#   bash tests/bench/overload.sh [OPTIONS of overload_bench]      needs build/release/bin
#
# The load program has the last core for itself, the broker the others.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/bench/cores.sh
bin=${TENON_BIN:-$PWD/build/release/bin}
folder=$(mktemp -d "${TMPDIR:-/tmp}/tenon-overload-XXXXXX")
broker=
stop() {
  if [ -n "$broker" ]; then kill -TERM "$broker" 2>/dev/null && wait "$broker" || true; fi
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM
port=${PORT:-$(shuf -i 20000-29999 -n 1)}
cat > "$folder/broker.toml" <<TOML
[broker]
name = "overload"
listen_host = "127.0.0.1"
port = $port
fast_port = false
store_root = "$folder/store"
[retention]
clean_forcibly = false
disk_full_pct = 100
[threads]
io_threads = ${IO_THREADS:-0}
TOML
on_broker_cores "$bin/tenon-broker" --config "$folder/broker.toml" > "$folder/log" 2>&1 &
broker=$!
for _ in $(seq 100); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
  kill -0 "$broker" 2>/dev/null || { cat "$folder/log"; exit 1; }
  sleep 0.1
done
rc=0
on_load_core "$bin/overload_bench" "$port" --pid "$broker" "$@" || rc=$?
grep -i warn "$folder/log" | tail -3 || true
exit $rc
