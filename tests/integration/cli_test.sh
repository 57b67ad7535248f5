#!/usr/bin/env bash
# The programs as a user meets them: start, stop, commands, JSON, faults of the environment, exit codes.
# Usage: cli_test.sh BIN_DIR [store options…]
set -uo pipefail

bin=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/tenon-cli-XXXXXX")
export HOME=$work/home XDG_DATA_HOME= NAMESRV_ADDR=
unset XDG_DATA_HOME NAMESRV_ADDR
mkdir -p "$HOME"
pids=()
failures=0

cleanup() {
  for pid in "${pids[@]}"; do
    kill -KILL "$pid" 2>/dev/null
  done
  rm -rf "$work"
}
trap cleanup EXIT

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND…: exit code and an extended regular expression in the output (both streams)
expect() {
  local code=$1 pattern=$2
  shift 2
  local output got
  output=$(timeout 60 "$@" 2>&1 </dev/null)
  got=$?
  [ "$got" = "$code" ] || fail "$* ended with $got instead of $code: $output"
  grep -Eq -- "$pattern" <<<"$output" || fail "$*: no \"$pattern\" in: $output"
}

# json ARGUMENTS…: of the tool; standard output is JSON, one object or array a line; kept in $json
json() {
  json=$(timeout 60 "$bin/tenon" --namesrv "${namesrv:-127.0.0.1:1}" "$@" --json 2>"$work/stderr" </dev/null) ||
    fail "tenon $* failed: $json $(cat "$work/stderr")"
  if command -v python3 >/dev/null; then
    python3 -c 'import json,sys; [json.loads(l) for l in sys.stdin]' <<<"$json" 2>/dev/null || fail "tenon $*: not JSON: $json"
  fi
}

# value NAME: of a member with that name in $json
value() { grep -oE "\"$1\":(\"[^\"]*\"|[^,}]*)" <<<"$json" | head -1 | sed -E 's/^"[^"]*"://; s/^"//; s/"$//'; }

# wait_line FILE PID: until the file has a line, at most 30 s, or the process has ended
wait_line() {
  for _ in $(seq 600); do
    [ -s "$1" ] && return 0
    kill -0 "$2" 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

# stop PID: SIGTERM, and the exit code must be 0
stop() {
  kill -TERM "$1"
  wait "$1"
  local got=$?
  [ $got = 0 ] || fail "process ended with $got after SIGTERM"
}

echo "== help, version, usage"
expect 0 'dev .*start|Start a name server' "$bin/tenon" --help
expect 0 '^[0-9]+\.[0-9]+\.[0-9]+' "$bin/tenon" --version
expect 0 '^[0-9]+\.[0-9]+\.[0-9]+' "$bin/tenon-broker" --version
expect 0 '^[0-9]+\.[0-9]+\.[0-9]+' "$bin/tenon-namesrv" --version
expect 0 'Queues on each broker' "$bin/tenon" topic create --help
expect 2 '.' "$bin/tenon"
expect 2 'no command "frobnicate"' "$bin/tenon" frobnicate
expect 2 'no command "topci", did you mean "topic"' "$bin/tenon" --namesrv x:1 topci list
expect 2 'topic' "$bin/tenon" send --body x
expect 2 'port' "$bin/tenon" dev --broker-port 70000
expect 2 'not a duration' "$bin/tenon" send --topic T --body x --timeout 5
expect 2 'excludes|exclude' "$bin/tenon" dev --memory --store x
expect 2 '.' "$bin/tenon-broker" --no-such-option

echo "== nobody there"
expect 1 'tenon: ' "$bin/tenon" --namesrv 127.0.0.1:1 topic list
expect 1 '"error":' "$bin/tenon" --namesrv 127.0.0.1:1 --json topic list

echo "== dev on a new store"
"$bin/tenon" dev --json --store "$work/store" --namesrv-port 0 --broker-port 0 >"$work/dev.out" 2>"$work/dev.err" &
dev=$!
pids+=("$dev")
wait_line "$work/dev.out" "$dev" || { cat "$work/dev.err"; fail "dev does not serve"; exit 1; }
json=$(cat "$work/dev.out")
namesrv=$(value namesrv)
broker=$(value broker)
[ "$(value store)" = "$work/store" ] || fail "store path is $(value store)"
[ "$(value pid)" = "$dev" ] || fail "pid is $(value pid)"
[ -d "$work/store" ] || fail "no store folder"
[ "$(wc -l <"$work/dev.out")" = 1 ] || fail "more than one line: $json"

echo "== topics"
expect 0 'topic Orders with 3 queues' "$bin/tenon" --namesrv "$namesrv" topic create Orders --queues 3
json topic list
grep -q '"Orders"' <<<"$json" || fail "topic list: $json"
json topic route Orders
[ "$(value write_queues)" = 3 ] || fail "route: $json"
grep -q "\"$broker\"" <<<"$json" || fail "route without $broker: $json"
expect 1 'tenon: ' "$bin/tenon" --namesrv "$namesrv" topic route NoSuchTopic
expect 1 'tenon: ' "$bin/tenon" --namesrv "$namesrv" topic create 'bad name'

echo "== send, consume, query"
json send --topic Orders --body 'first Ü' --tag created --key o-17 --property colour=red
id=$(value id)
offset_id=$(value offset_id)
[ "$(value status)" = OK ] || [ "$(value status)" = SEND_OK ] || fail "send: $json"
expect 0 'offset=.* id=' "$bin/tenon" --namesrv "$namesrv" send --topic Orders --body second --count 4
printf 'from a file' >"$work/body"
expect 0 'id=' "$bin/tenon" --namesrv "$namesrv" send --topic Orders --file "$work/body" --tag other
expect 1 'cannot be read' "$bin/tenon" --namesrv "$namesrv" send --topic Orders --file "$work/absent"
json consume --topic Orders --group g1 --count 6 --timeout 30s
[ "$(wc -l <<<"$json")" = 6 ] || fail "consumed: $json"
grep -q '"body":"first Ü"' <<<"$json" || fail "body: $json"
grep -q '"colour":"red"' <<<"$json" || fail "property: $json"
json consume --topic Orders --group g2 --filter 'created || other' --count 2 --timeout 30s
grep -q '"from a file"' <<<"$json" || fail "filter: $json"
expect 1 'of 1 messages within 2s' "$bin/tenon" --namesrv "$namesrv" consume --topic Orders --group g1 --count 1 --timeout 2s

echo "== groups"
json group list
grep -q '"group":"g1"' <<<"$json" || fail "group list: $json"
expect 0 'group g1, nobody is online' "$bin/tenon" --namesrv "$namesrv" group show g1
json group show g1
[ "$(value lag)" = 0 ] || fail "group show: $json"
expect 1 'not online and has no offsets' "$bin/tenon" --namesrv "$namesrv" group show g-unknown
expect 2 'one of --to-start, --to-end, --back' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic Orders
expect 0 ' 0$' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic Orders --to-start
json group show g1
[ "$(value lag)" -gt 0 ] || fail "group show after the reset: $json"
expect 0 'OFFSET' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic Orders --to-end
expect 0 'OFFSET' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic Orders --back 5m
expect 0 'OFFSET' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic Orders --to-end
expect 1 'tenon: ' "$bin/tenon" --namesrv "$namesrv" group reset-offset g1 --topic NoSuchTopic --to-end
expect 0 'group g-set set' "$bin/tenon" --namesrv "$namesrv" group set g-set --retries 3 --no-broadcast
expect 0 'g-set +yes +no +3 +yes' "$bin/tenon" --namesrv "$namesrv" group list
expect 0 'group g-set deleted' "$bin/tenon" --namesrv "$namesrv" group delete g-set --with-offsets
json query key Orders o-17
grep -q "\"id\":\"$id\"" <<<"$json" || fail "query key: $json"
json query id "$offset_id"
grep -q "\"id\":\"$id\"" <<<"$json" || fail "query id: $json"
expect 0 "$id" "$bin/tenon" --namesrv "$namesrv" query id "$id" --topic Orders
expect 1 'tenon: ' "$bin/tenon" --namesrv "$namesrv" query key Orders no-such-key

echo "== bench"
json bench send --connections 2 --window 8 --size 100 --count 2000 --warmup 100 --broker-pid "$dev"
[ "$(value messages)" = 2000 ] || fail "bench send: $json"
[ "$(value errors)" = 0 ] || fail "bench send: $json"
[ -n "$(value p99_us)" ] && [ -n "$(value broker_rss_anon_bytes)" ] || fail "bench send: $json"
json bench consume --size 100 --count 2000
[ "$(value messages)" -ge 2000 ] || fail "bench consume: $json"
expect 1 'process 4999999' "$bin/tenon" --namesrv "$namesrv" bench send --count 10 --warmup 0 --broker-pid 4999999

echo "== what is taken"
expect 1 'broker.*in use by another' "$bin/tenon" dev --store "$work/store" --namesrv-port 0 --broker-port 0
expect 1 "name server.*${namesrv##*:}" "$bin/tenon" dev --memory --namesrv-port "${namesrv##*:}" --broker-port 0
expect 1 "broker.*${broker##*:}" "$bin/tenon" dev --memory --namesrv-port 0 --broker-port "${broker##*:}"
expect 1 "${namesrv##*:}" "$bin/tenon-namesrv" --host 127.0.0.1 --port "${namesrv##*:}"

echo "== into the store"
expect 1 'in use by a broker.*--snapshot' "$bin/tenon" store check "$work/store"
expect 0 'all is well|0 errors,' "$bin/tenon" store check "$work/store" --snapshot

echo "== restart on the same store"
stop "$dev"
expect 0 'all is well' "$bin/tenon" store check "$work/store"
expect 0 'last stop +clean' "$bin/tenon" store stat "$work/store"
expect 0 'first Ü' "$bin/tenon" store dump messages "$work/store" --topic Orders --key o-17
json store check "$work/store"
[ "$(value errors)" = 0 ] || fail "store check: $json"
json store stat "$work/store"
[ "$(value topic)" != "" ] || fail "store stat: $json"
json store dump messages "$work/store" --topic Orders --key o-17
[ "$(value body)" = "first Ü" ] && [ "$(value id)" = "$offset_id" ] || fail "store dump: $json"
json store dump units "$work/store" --topic Orders --queue 0 --offset 0
[ "$(wc -l <<<"$json")" = 1 ] || fail "store dump units: $json"
json store dump index "$work/store" --topic Orders --key o-17
[ "$(value entry)" -ge 1 ] || fail "store dump index: $json"
expect 2 'no range' "$bin/tenon" store dump units "$work/store" --offset x
expect 2 'no time' "$bin/tenon" store dump messages "$work/store" --since yesterday
expect 1 'no store' "$bin/tenon" store stat "$work"
cp -r "$work/store" "$work/damaged"
printf '\377' | dd of="$work/damaged/commitlog/00000000000000000000" bs=1 seek=95 conv=notrunc 2>/dev/null
expect 1 'record-crc|log-damage' "$bin/tenon" store check "$work/damaged"
expect 2 'either --dry-run or --apply' "$bin/tenon" store repair "$work/damaged"
rm -r "$work/damaged/consumequeue/Orders/0"
expect 0 'queue Orders/0 would be made anew' "$bin/tenon" store repair "$work/damaged" --dry-run
[ ! -e "$work/damaged/consumequeue/Orders/0" ] || fail "a dry run made a queue"
rm -r "$work/damaged"
cp -r "$work/store" "$work/damaged"
mv "$work/damaged/commitlog" "$work/log"
expect 1 'name the folder with --commitlog-folder' "$bin/tenon" store check "$work/damaged"
expect 0 'all is well' "$bin/tenon" store check "$work/damaged" --commitlog-folder "$work/log"
expect 0 'first Ü' "$bin/tenon" store dump messages "$work/damaged" --commitlog-folder "$work/log" --topic Orders --key o-17
expect 1 'must be a full path' "$bin/tenon" store stat "$work/damaged" --commitlog-folder log
mv "$work/log" "$work/damaged/commitlog"
rm -r "$work/damaged/consumequeue/Orders/0"
json store repair "$work/damaged" --apply
[ "$(value topic)" = Orders ] || fail "store repair: $json"
expect 0 'all is well' "$bin/tenon" store check "$work/damaged"
expect 0 'nothing to do' "$bin/tenon" store repair "$work/damaged" --apply
rm -r "$work/damaged"
expect 0 'exported 6 messages' "$bin/tenon" store export "$work/store" --topic Orders --to "$work/orders.export"
expect 1 'exists already' "$bin/tenon" store export "$work/store" --topic Orders --to "$work/orders.export"
expect 0 'imported 6 messages' "$bin/tenon" store import "$work/imported" --from "$work/orders.export"
expect 1 '--append' "$bin/tenon" store import "$work/imported" --from "$work/orders.export"
json store import "$work/imported" --from "$work/orders.export" --append
[ "$(value messages)" = 6 ] || fail "store import: $json"
expect 0 'all is well' "$bin/tenon" store check "$work/imported"
expect 0 'Orders +[0-9]+ +12' "$bin/tenon" store stat "$work/imported"
expect 1 'no DLedger' "$bin/tenon" store import-dledger "$work/imported" --to "$work/plain"
rm -r "$work/imported"
"$bin/tenon" dev --store "$work/store" --namesrv-port 0 --broker-port 0 >"$work/dev2.out" 2>"$work/dev2.err" &
dev=$!
pids+=("$dev")
wait_line "$work/dev2.out" "$dev" || { cat "$work/dev2.err"; fail "dev does not serve again"; exit 1; }
grep -Eq "^serving: name server 127.0.0.1:[0-9]+, broker 127.0.0.1:[0-9]+, store $work/store, started in [0-9]+ ms$" "$work/dev2.out" ||
  fail "line: $(cat "$work/dev2.out")"
namesrv=$(grep -oE 'name server [^,]*' "$work/dev2.out" | cut -d' ' -f3)
json query key Orders o-17
grep -q "\"id\":\"$id\"" <<<"$json" || fail "after restart: $json"
expect 1 'of 1 messages within 2s' "$bin/tenon" --namesrv "$namesrv" consume --topic Orders --group g1 --count 1 --timeout 2s
expect 0 'deleted' "$bin/tenon" --namesrv "$namesrv" topic delete Orders
expect 1 'tenon: ' "$bin/tenon" --namesrv "$namesrv" topic route Orders
kill -INT "$dev"
wait "$dev"
got=$?
[ $got = 0 ] || fail "ended with $got after SIGINT"

echo "== default store, memory"
"$bin/tenon" dev --json --namesrv-port 0 --broker-port 0 >"$work/dev3.out" 2>&1 &
dev=$!
pids+=("$dev")
wait_line "$work/dev3.out" "$dev" || fail "dev without --store: $(cat "$work/dev3.out")"
json=$(cat "$work/dev3.out")
[ "$(value store)" = "$HOME/.local/share/tenon/dev" ] || fail "default store: $json"
stop "$dev"
"$bin/tenon" dev --json --memory --namesrv-port 0 --broker-port 0 >"$work/dev4.out" 2>&1 &
dev=$!
pids+=("$dev")
wait_line "$work/dev4.out" "$dev" || fail "dev --memory: $(cat "$work/dev4.out")"
json=$(cat "$work/dev4.out")
namesrv=$(value namesrv)
[ "$(value store)" = memory ] || fail "memory store: $json"
expect 0 'id=' "$bin/tenon" --namesrv "$namesrv" send --topic Auto --body x
json consume --topic Auto --count 1 --timeout 30s
stop "$dev"

echo "== separate programs without a file"
"$bin/tenon-namesrv" --host 127.0.0.1 --port 0 >"$work/ns.out" 2>"$work/ns.err" &
ns=$!
pids+=("$ns")
wait_line "$work/ns.out" "$ns" || fail "tenon-namesrv: $(cat "$work/ns.err")"
namesrv=127.0.0.1:$(grep -oE ':[0-9]+' "$work/ns.out" | head -1 | tr -d :)
"$bin/tenon-broker" --port 0 --name b1 --store "$work/store2" --namesrv "$namesrv" >"$work/b.out" 2>"$work/b.err" &
b=$!
pids+=("$b")
wait_line "$work/b.out" "$b" || fail "tenon-broker: $(cat "$work/b.err")"
json topic list
grep -q TBW102 <<<"$json" || fail "not registered: $json"
stop "$b"
stop "$ns"

echo "== configuration files"
cat >"$work/bad.toml" <<TOML
[broker]
nmae = "x"
port = "many"
[send]
message_max_bytes = "1 MiB"
[stroage]
plugin = "y"
TOML
for command in "$bin/tenon-broker -c $work/bad.toml" "$bin/tenon config check broker $work/bad.toml" "$bin/tenon dev --memory -c $work/bad.toml"; do
  for problem in '4 problems' 'bad.toml:2:1: unknown key broker.nmae, did you mean "name"' 'bad.toml:3:1: port must be an integer' \
    'bad.toml:5:1: message_max_bytes: "1 MiB" is not a size' 'unknown table stroage, did you mean "storage"'; do
    output=$(timeout 60 $command 2>&1)
    code=$?
    [ $code != 0 ] || fail "$command succeeded"
    grep -Fq -- "$problem" <<<"$output" || fail "$command: no \"$problem\" in: $output"
  done
done
expect 2 'problems' "$bin/tenon-broker" -c "$work/bad.toml"
expect 1 'problems' "$bin/tenon" config check broker "$work/bad.toml"
expect 2 'No such file' "$bin/tenon-broker" -c "$work/absent.toml"
printf '[namesrv]\nlisten_port = = 1\n' >"$work/syntax.toml"
expect 2 'syntax.toml:2:' "$bin/tenon-namesrv" -c "$work/syntax.toml"
"$bin/tenon" config print broker >"$work/broker.toml" || fail "config print broker"
"$bin/tenon" config print namesrv >"$work/namesrv.toml" || fail "config print namesrv"
expect 0 'is right' "$bin/tenon" config check broker "$work/broker.toml"
expect 0 'is right' "$bin/tenon" config check namesrv "$work/namesrv.toml"
printf '[storage]\nplugin = "tenon.store.flie"\n' >"$work/plugin.toml"
expect 1 'tenon.store.flie' "$bin/tenon" config check broker "$work/plugin.toml"
printf '[[filter]]\nplugin = "tenon.filter.tag"\n[filter.options]\nwrong = 1\n' >"$work/option.toml"
expect 1 'option.toml:4:1: tenon.filter.tag has no option wrong' "$bin/tenon" config check broker "$work/option.toml"
json config print broker
grep -q '"key":"broker.port"' <<<"$json" || fail "config print --json"

echo "== plug-ins"
expect 0 'tenon.store.file .*storage/1' "$bin/tenon" plugin list
json plugin list
expect 0 'virtual_nodes .*default 10' "$bin/tenon" plugin describe tenon.allocator.consistent-hash
expect 0 'tenon.filter.tag' "$bin/tenon" plugin check "$bin/../plugins/tenon.filter.tag.tenon.so"
printf 'no library' >"$work/x.tenon.so"
expect 1 'x.tenon.so' "$bin/tenon" plugin check "$work/x.tenon.so"
expect 1 'tenon.store.file' "$bin/tenon" plugin describe tenon.store.fiel

[ $failures = 0 ] && echo "all passed"
exit $((failures > 0))
