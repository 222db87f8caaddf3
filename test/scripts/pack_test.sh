#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pack_test.sh GANTRAIN: what data pack writes, read with Python's zipfile and Pillow.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain="$1"
packed() { "${GANTRAIN_PYTHON:-python3}" "$root/test/python/packed.py" "$@"; }
packed make "$tmp/in"
"$gantrain" data pack "$tmp/in" -o "$tmp/out.zip" --resolution 32
expect "both broken files are listed" 2 "$(wc -l < "$tmp/out.zip.bad.txt")"
packed check "$tmp/out.zip" 30 32 32 3
"$gantrain" data pack "$tmp/in" -o "$tmp/wide" --resolution 48x32 --fit pad
packed check "$tmp/wide" 30 48 32 3
"$gantrain" data pack "$tmp/in" -o "$tmp/small.zip" --resolution 32 --png-level 9 --channels 1 --max-images 9
packed check "$tmp/small.zip" 9 32 32 1
packed many "$tmp/many.zip"
"$gantrain" data pack "$tmp/many.zip" -o "$tmp/packed.zip" --resolution 4
packed check "$tmp/packed.zip" 66000 4 4 0
"$gantrain" data pack "$tmp/packed.zip" -o "$tmp/again.zip" --resolution 4
expect "packed again it is the same" same "$(cmp "$tmp/packed.zip" "$tmp/again.zip" && echo same)"
# A full disk: noise of 30 pictures does not fit, compressed or not.
mkdir "$tmp/full"
if mount -t tmpfs -o size=3m tmpfs "$tmp/full" 2>/dev/null; then
  for level in 0 1; do
    status=0
    "$gantrain" data pack "$tmp/in" -o "$tmp/full/out.zip" --resolution 256 --png-level "$level" || status=$?
    there=""
    [ ! -e "$tmp/full/out.zip" ] || there=yes
    [ "$level $status $there" = "$level 8 " ] || break
  done
  umount "$tmp/full"
  expect "a full disk is exit 8" 8 "$status"
  expect "nothing has the final name" "" "$there"
fi
