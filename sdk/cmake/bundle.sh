#!/bin/sh
# bundle.sh CXX OBJCOPY AR OUT ARCHIVE...: one archive of one object in which only the API is visible, so that an
# application's own copy of a library that is inside (Boost) is not taken for ours. Without OBJCOPY (-): the members as they are.
set -eu
cxx=$1 objcopy=$2 ar=$3 out=$4
shift 4
if [ "$objcopy" = - ]; then
  {
    echo "CREATE $out"
    for archive in "$@"; do echo "ADDLIB $archive"; done
    echo SAVE
    echo END
  } | "$ar" -M
  exit
fi
object=${out%.a}.o
# Groups are resolved here: a group whose name has become local would be thrown away with another of that name.
"$cxx" -r -nostdlib -Wl,--force-group-allocation -Wl,--whole-archive "$@" -Wl,--no-whole-archive -o "$object"
# Unique symbols, which objcopy does not make local, become weak first.
nm -g --defined-only "$object" | sed -n 's/.* u //p' >"$object.unique"
"$objcopy" --weaken-symbols="$object.unique" "$object"
# Hidden symbols, and those that Boost makes visible on its own account.
"$objcopy" --localize-hidden --wildcard --keep-global-symbol='tenon_*' --keep-global-symbol='_ZN5tenon3sdk*' \
  --keep-global-symbol='_ZNK5tenon3sdk*' --keep-global-symbol='_ZT[ISV]N5tenon3sdk*' "$object"
"$ar" qc "$out" "$object"
rm -f "$object" "$object.unique"
