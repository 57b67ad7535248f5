#!/usr/bin/env bash
# Starts the official Java name server and broker as a peer to measure or test against; prints their pids and the broker's start time.
#
#   java_cluster.sh start DIR [NAMESRV_PORT BROKER_PORT [KEY=VALUE ...]]   extra broker properties, e.g. brokerRole=SLAVE brokerId=1
#   java_cluster.sh stop DIR                                              clean shutdown (SIGTERM), waits
#   java_cluster.sh kill DIR                                              SIGKILL of the broker
#   java_cluster.sh mqadmin DIR COMMAND [ARGS ...]                        the official admin tool, pointed at DIR's name server
#
# Environment: ROCKETMQ_VERSION (4.9.7; 5.3.3 works too), JAVA_OPTS of the broker (-Xms512m -Xmx1g), PEER_JARS (where the jars are kept).
# NAMESRV_PORT 0 starts no name server; give namesrvAddr=HOST:PORT then. Listens on loopback only.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=${ROCKETMQ_VERSION:-4.9.7}
jars=${PEER_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/rocketmq-peer}/$version
action=$1 dir=$2

fetch_jars() {
  [ -e "$jars/.complete" ] && return
  mkdir -p "$jars"
  mvn -q -B -f "$here/peer/pom.xml" dependency:copy-dependencies -Drocketmq.version="$version" -DoutputDirectory="$jars" >/dev/null
  touch "$jars/.complete"
}
wait_port() { for _ in $(seq 3000); do (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return; sleep 0.02; done; echo "port $1 did not open" >&2; return 1; }
stop() { local pid; [ -e "$1" ] || return 0; pid=$(cat "$1"); kill "-$2" "$pid" 2>/dev/null || true; for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done; rm -f "$1"; }

export ROCKETMQ_HOME=$dir
# Without these a broker on Java 17 cannot unmap its files and does not unregister at shutdown.
opens=(--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/jdk.internal.ref=ALL-UNNAMED)
case $action in
start)
  ns=${3:-9876} port=${4:-10911}; shift $(( $# < 4 ? $# : 4 ))
  fetch_jars
  mkdir -p "$dir/conf"
  for part in broker namesrv tools; do echo '<configuration><root level="OFF"/></configuration>' >"$dir/conf/logback_$part.xml"; echo '<configuration/>' >"$dir/conf/rmq.$part.logback.xml"; done
  {
    printf '%s\n' brokerClusterName=DefaultCluster brokerName=broker-a brokerId=0 brokerIP1=127.0.0.1 brokerIP2=127.0.0.1 "listenPort=$port" "storePathRootDir=$dir/store" "storePathCommitLog=$dir/store/commitlog"
    [ "$ns" = 0 ] || echo "namesrvAddr=127.0.0.1:$ns"
    for pair in "$@"; do echo "$pair"; done
  } >"$dir/broker.conf"
  if [ "$ns" != 0 ]; then
    echo "$ns" >"$dir/namesrv.port"; echo "listenPort=$ns" >"$dir/namesrv.conf"
    nohup java -Xms256m -Xmx256m -cp "$jars/*" org.apache.rocketmq.namesrv.NamesrvStartup -c "$dir/namesrv.conf" >"$dir/namesrv.log" 2>&1 & echo $! >"$dir/namesrv.pid"
    wait_port "$ns"
  fi
  t0=$(date +%s%N)
  # shellcheck disable=SC2086
  nohup java "${opens[@]}" ${JAVA_OPTS:--Xms512m -Xmx1g} -cp "$jars/*" org.apache.rocketmq.broker.BrokerStartup -c "$dir/broker.conf" >"$dir/broker.log" 2>&1 & echo $! >"$dir/broker.pid"
  wait_port "$port"
  echo "broker $(cat "$dir/broker.pid") on $port after $(( ($(date +%s%N) - t0) / 1000000 )) ms" ;;
stop) stop "$dir/broker.pid" TERM; stop "$dir/namesrv.pid" TERM ;;
kill) stop "$dir/broker.pid" KILL ;;
mqadmin) shift 2; fetch_jars; exec java -Drocketmq.namesrv.addr="127.0.0.1:$(cat "$dir/namesrv.port" 2>/dev/null || echo 9876)" -cp "$jars/*" org.apache.rocketmq.tools.command.MQAdminStartup "$@" ;;
*) sed -n '2,12p' "$0"; exit 2 ;;
esac
