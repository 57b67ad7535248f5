#!/usr/bin/env bash
# Java brokers register with our name server, and the official admin tool works against it.
#
#   namesrv_java_test.sh [VERSION ...]      versions of the broker, default 4.9.7 and 5.3.3
#
# Environment: TENON_BIN (folder of tenon-namesrv, default build/release/bin). Needs Java and the jars of
# java_cluster.sh. Exit code 0 if every check passed, 77 if Java is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${TENON_BIN:-$here/../../build/release/bin}
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=(4.9.7 5.3.3)
command -v java >/dev/null || { echo "SKIP no java"; exit 77; }
[ -x "$bin/tenon-namesrv" ] || { echo "FAIL $bin/tenon-namesrv is missing"; exit 1; }

export JAVA_OPTS=${JAVA_OPTS:--Xms192m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1}
root=$(mktemp -d)
failed=0 ns_pid=
finish() {
  for v in "${versions[@]}"; do "$here/java_cluster.sh" stop "$root/$v" >/dev/null 2>&1 || true; done
  [ -z "$ns_pid" ] || kill "$ns_pid" 2>/dev/null || true
  rm -rf "$root"
}
trap finish EXIT

# check NAME PATTERN TEXT: the text has a line that matches
check() {
  if grep -Eq -- "$2" <<<"$3"; then echo "PASS $1"; else echo "FAIL $1: no /$2/ in:"; head -c 1500 <<<"$3"; failed=1; fi
}
# eventually NAME PATTERN COMMAND...: the same for the output of a command that may need some time
eventually() {
  local name=$1 pattern=$2 out; shift 2
  for _ in 1 2 3 4 5 6; do
    out=$("$@" 2>&1) || true
    if grep -Eq -- "$pattern" <<<"$out"; then echo "PASS $name"; return; fi
    sleep 1
  done
  check "$name" "$pattern" "$out"
}
free_port() { python3 -c '
import random, socket
while True:
    p = random.randrange(22100, 29900)
    try:
        for q in (p, p - 2, p + 1):
            s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", q)); s.close()
    except OSError:
        continue
    print(p); break'; }

"$bin/tenon-namesrv" --host 127.0.0.1 --port 0 --kv-config "$root/kv.json" >"$root/namesrv.out" 2>"$root/namesrv.err" &
ns_pid=$!
for _ in $(seq 200); do grep -q serves "$root/namesrv.out" && break; sleep 0.02; done
port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$root/namesrv.out")
[ -n "$port" ] || { echo "FAIL tenon-namesrv did not start"; cat "$root/namesrv.err"; exit 1; }
tool() { "$here/java_cluster.sh" mqadmin "$root/tool" "$@" -n "127.0.0.1:$port" 2>&1; }
mkdir -p "$root/tool/conf"
for part in tools; do echo '<configuration><root level="OFF"/></configuration>' >"$root/tool/conf/logback_$part.xml"; echo '<configuration/>' >"$root/tool/conf/rmq.$part.logback.xml"; done

for v in "${versions[@]}"; do
  export ROCKETMQ_VERSION=$v
  broker_port=$(free_port)
  "$here/java_cluster.sh" start "$root/$v" 0 "$broker_port" "namesrvAddr=127.0.0.1:$port" "brokerName=java-$v" "haListenPort=$((broker_port + 1))" >/dev/null
  address=127.0.0.1:$broker_port
  tag="V${v//./_}"
  unset ROCKETMQ_VERSION  # the tool is always 4.9.7
  eventually "$v: clusterList" "DefaultCluster +java-$v +0 +$address +$tag" tool clusterList
  eventually "$v: topicList" '^TBW102$' tool topicList
  check "$v: updateTopic" "create topic to $address success" "$(tool updateTopic -b "$address" -t "Ns-${v//./}" -r 3 -w 3)"
  eventually "$v: topicRoute" "\"brokerName\":\"java-$v\"" tool topicRoute -t "Ns-${v//./}"
  check "$v: topicRoute queues" '"readQueueNums":3' "$(tool topicRoute -t "Ns-${v//./}")"
  check "$v: wipeWritePerm" "OK, [1-9]" "$(tool wipeWritePerm -b "java-$v")"
  check "$v: topicRoute after it" '"perm":4' "$(tool topicRoute -t "Ns-${v//./}")"
  check "$v: addWritePerm" "OK, [1-9]" "$(tool addWritePerm -b "java-$v")"
  check "$v: topicClusterList" 'DefaultCluster' "$(tool topicClusterList -t "Ns-${v//./}")"
  check "$v: updateKvConfig" 'create or update kv config to namespace success' "$(tool updateKvConfig -s WIRE -k "k$v" -v "v$v")"
  check "$v: deleteTopic" 'delete topic .* success' "$(tool deleteTopic -c DefaultCluster -t "Ns-${v//./}")"
  check "$v: topicRoute of the deleted topic" 'CODE: 17' "$(tool topicRoute -t "Ns-${v//./}")"
  "$here/java_cluster.sh" stop "$root/$v"
  check "$v: unregistered" '^0$' "$(tool clusterList | grep -c "java-$v" || true)"
done
check "kv file" 'configTable.*WIRE' "$(cat "$root/kv.json")"
check "getNamesrvConfig" 'listenPort += +'"$port" "$(tool getNamesrvConfig)"
kill "$ns_pid"; wait "$ns_pid" && echo "PASS clean stop" || { echo "FAIL the name server ended with $?"; failed=1; }
ns_pid=
exit $failed
