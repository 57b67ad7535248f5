#!/usr/bin/env bash
# Measures the ceiling program, Tenon and the official Java broker one after another on this machine
# and prints the table for the README. Nothing else should run meanwhile. See compare.py --help.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bash "$here/../install_packages.sh" build interop
cd "$here/../.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset release >/dev/null
cmake --build --preset release >/dev/null
exec python3 "$here/compare.py" "$@"
