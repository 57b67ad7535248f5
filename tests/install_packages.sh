#!/usr/bin/env bash
# Installs the Debian packages that are missing; says nothing when there is nothing to do.
#
#   tests/install_packages.sh build      what a build of the programs needs
#   tests/install_packages.sh test       what the unit tests, sanitizers, fuzzers and the format check need besides
#   tests/install_packages.sh interop    Java, Maven, Go, Node and Python for the tests with unmodified clients
#
# Several groups may be given. Tools that are there from elsewhere (a newer Go, a Node of another origin) are used as they are.
set -euo pipefail

missing=()
package() { # a package that must be there itself
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] || missing+=("$name")
  done
}
tool() { # a command, and the package that brings it
  command -v "$1" >/dev/null 2>&1 || missing+=("$2")
}

[ $# -gt 0 ] || { sed -n '2,8p' "$0"; exit 2; }
for group in "$@"; do
  case $group in
  build)
    tool cmake cmake; tool ninja ninja-build; tool g++ g++; tool ccache ccache; tool pkg-config pkg-config; tool git git
    package libboost1.81-dev libspdlog-dev libfmt-dev libtomlplusplus-dev libcli11-dev liblz4-dev libzstd-dev zlib1g-dev libdeflate-dev libssl-dev doctest-dev tao-pegtl-dev ;;
  test)
    tool clang-14 clang-14; tool clang-format-14 clang-format-14; tool python3 python3
    package libclang-rt-14-dev ;;
  interop)
    tool java default-jdk-headless; tool javac default-jdk-headless; tool mvn maven; tool go golang-go; tool node nodejs; tool npm npm; tool python3 python3 ;;
  *) echo "install_packages.sh: unknown group '$group' (build, test, interop)" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if ! command -v apt-get >/dev/null 2>&1; then
  echo "These packages are missing, and there is no apt-get to install them with (Debian 12 is what is tested): ${missing[*]}" >&2
  exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || { echo "Please install as root: apt-get install ${missing[*]}" >&2; exit 1; }
  root=(sudo)
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${root[@]}" apt-get update -qq && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "The packages could not be installed (see above). By hand: apt-get install ${missing[*]}" >&2
  exit 1
fi
