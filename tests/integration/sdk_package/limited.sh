# Sourced by test.sh and headers.sh: commands that may not take longer than they are allowed to. Wants the folder $tmp.

fail() { echo "FAILED: $*"; exit 1; }

running=
trap '[ -z "$running" ] || kill -KILL -- "-$running" 2>/dev/null || true; rm -rf "$tmp"' EXIT

# What a process and its children are doing: each thread with its state and where in the kernel it waits; stacks if there is gdb.
doing() {
  ps -L -o pid,tid,stat,etimes,wchan:24,args --no-headers -p "$1" || true
  if command -v gdb >/dev/null; then timeout 30 gdb -p "$1" -batch -ex 'thread apply all backtrace 30' 2>/dev/null </dev/null | grep -E '^(Thread|#)' || true; fi
  local child
  for child in $(ps -o pid= --ppid "$1"); do doing "$child"; done
}

# quiet SECONDS COMMAND...: its output is shown only when it fails. When the time is over, says what it is doing and ends it.
quiet() {
  local limit=$1 end=$((SECONDS + $1))
  shift
  setsid "$@" >"$tmp/log" 2>&1 </dev/null &
  running=$!
  while kill -0 "$running" 2>/dev/null; do
    if [ $SECONDS -ge $end ]; then
      tail -50 "$tmp/log"
      echo "-- this still runs after $limit s: $*"
      doing "$running"
      fail "timed out: $*"
    fi
    sleep 0.1
  done
  local pid=$running
  running=
  wait "$pid" || { cat "$tmp/log"; fail "$*"; }
}
