#!/bin/sh
# bundle.sh AR OUT ARCHIVE...: one archive with the members of all.
set -eu
ar=$1 out=$2
shift 2
{
  echo "CREATE $out"
  for archive in "$@"; do echo "ADDLIB $archive"; done
  echo SAVE
  echo END
} | "$ar" -M
