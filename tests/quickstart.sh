#!/usr/bin/env bash
# From nothing to a message that went from a producer onto disk and to a consumer: installs the build
# packages that are missing, builds the release, starts name server and broker, runs the example, stops.
#
#   bash tests/quickstart.sh [MESSAGES]        5 messages unless told otherwise; may be run again
#
# Uses ports 9876 and 10911 if they are free, else others. The store is kept in build/quickstart/store.
set -euo pipefail
cd "$(dirname "$0")/.."
messages=${1:-5}
folder=$PWD/build/quickstart
server=
began=$SECONDS

give_up() { printf '\nquickstart: %s\n' "$1" >&2; exit 1; }
free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
pick() { # PORT NEIGHBOUR...: the port if it and its neighbours are free, else another one
  local port=$1 offset ok; shift
  for port in "$port" $(shuf -i 20000-29999 -n 50); do
    ok=yes
    for offset in 0 "$@"; do free $((port + offset)) || ok=no; done
    [ $ok = no ] || { echo "$port"; return; }
  done
  give_up "no free port found"
}
stop() {
  if [ -n "$server" ] && kill -0 "$server" 2>/dev/null; then
    kill -TERM "$server"
    for _ in $(seq 100); do kill -0 "$server" 2>/dev/null || break; sleep 0.1; done
    if kill -0 "$server" 2>/dev/null; then kill -KILL "$server"; server=; give_up "the server did not stop within 10 s; its output is in $folder/tenon.log"; fi
    local code=0
    wait "$server" || code=$?
    server=
    [ $code = 0 ] || [ $code = 143 ] || give_up "the server ended with code $code; its output is in $folder/tenon.log"
  fi
}
trap 'stop || true' EXIT
trap 'exit 130' INT TERM

[[ $messages =~ ^[0-9]+$ ]] && [ "$messages" -gt 0 ] || give_up "'$messages' is not a number of messages"
bash tests/install_packages.sh build || give_up "packages are missing (see above)"

mkdir -p "$folder"
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
[ -x build/release/bin/example_quickstart ] || echo "building the release, which takes some minutes the first time (log: build/quickstart/build.log)"
if ! { cmake --preset release && cmake --build --preset release --target tenon plugins/all example_quickstart; } >"$folder/build.log" 2>&1; then
  grep -m 1 -A 15 -E 'error:|Error|FAILED' "$folder/build.log" >&2 || tail -n 25 "$folder/build.log" >&2
  give_up "the build failed; all of its output is in $folder/build.log"
fi
echo "built in $((SECONDS - began)) s"

namesrv=$(pick 9876) broker=$(pick 10911 -2)
build/release/bin/tenon dev --store "$folder/store" --namesrv-port "$namesrv" --broker-port "$broker" >"$folder/tenon.log" 2>&1 &
server=$!
for _ in $(seq 200); do
  if ! kill -0 "$server" 2>/dev/null; then server=; cat "$folder/tenon.log" >&2; give_up "the server did not start"; fi
  ! free "$namesrv" && ! free "$broker" && break
  sleep 0.05
done
! free "$broker" || { cat "$folder/tenon.log" >&2; give_up "the server does not listen on port $broker"; }
echo "name server on 127.0.0.1:$namesrv, broker on 127.0.0.1:$broker"
echo
build/release/bin/example_quickstart "127.0.0.1:$namesrv" "$messages" || give_up "the example failed; the server's output is in $folder/tenon.log"
stop
echo
echo "stopped cleanly; the store with the messages lies in $folder/store ($(du -sh "$folder/store" | cut -f 1) on disk)"
cat <<'TEXT'

Try next:
  build/release/bin/tenon dev                                         name server and broker, until Ctrl-C
  build/release/bin/tenon send --topic Hello --body 'first message'   in a second terminal
  build/release/bin/tenon consume --topic Hello                       in a third one
  build/release/bin/tenon --help                                      topics, queries, benchmarks, plug-ins
Any RocketMQ client works as well: give it 127.0.0.1:9876 as its name server. README.md goes on from here.
TEXT
