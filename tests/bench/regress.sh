#!/usr/bin/env bash
# Is the present build slower than an earlier commit? Builds BASE in a worktree of its own and measures both brokers
# alternately in one run: ratios of rates and of the broker's CPU time per message, with the present client.
#
#   tests/bench/regress.sh BASE [options of regress.py]      # e.g. regress.sh v1.0 --rounds 15
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { sed -n '2,5p' "$0"; exit 2; }
base=$(git -C "$root" rev-parse --verify "$1^{commit}"); shift
tree=$root/build/regress/${base:0:12}
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root}
if [ ! -d "$tree" ]; then
  mkdir -p "$root/build/regress"
  git -C "$root" worktree prune
  git -C "$root" worktree add --detach --force "$tree" "$base" >/dev/null
fi
# What the servers need; a commit without one of these targets is built whole.
build() { # FOLDER
  (cd "$1" && cmake --preset release >/dev/null && cmake --build --preset release -j "${JOBS:-$(nproc)}" --target tenon tenon-broker tenon-namesrv tenon.store.file.tenon.so tenon.store.memory.tenon.so tenon.filter.tag.tenon.so tenon.filter.sql92.tenon.so tenon.txn.default.tenon.so \
    || cmake --build --preset release -j "${JOBS:-$(nproc)}") >"$root/build/regress/$(basename "$1").log" 2>&1 || { tail -n 30 "$root/build/regress/$(basename "$1").log"; exit 1; }
}
build "$tree"
build "$root"
exec python3 "$here/regress.py" --base "$tree/build/release/bin" --present "$root/build/release/bin" "$@"
