#!/usr/bin/env bash
# Long polling of a fresh broker: 10 000 parked pulls on 1 000 queues, wake-up p99 at most 2 ms. Options go to longpoll_bench.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=${TENON_BIN:-$here/build/release/bin}
. "$here/tests/bench/cores.sh"
folder=$(mktemp -d)
port=$((23000 + RANDOM % 5000))
on_broker_cores "$bin/tenon" dev --namesrv-port $((port + 5)) --broker-port "$port" --store "$folder/store" >"$folder/log" 2>&1 &
broker=$!
trap 'kill $broker 2>/dev/null; wait $broker 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 200); do (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break; sleep 0.05; done
on_load_core "$bin/longpoll_bench" "127.0.0.1:$port" --pid $broker "$@"
