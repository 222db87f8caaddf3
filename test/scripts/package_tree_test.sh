#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of a folder: unpacked anywhere, it draws without this system's picture libraries.
# Wrong words to package.sh are refused.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
package=$root/scripts/package.sh
refused() { code=0; said=$("$package" "$@" 2>&1) || code=$?; }
refused
expect "no kind" "2 usage:" "$code $(grep -o 'usage:' <<<"$said")"
refused rpm
expect "an unknown kind" "2 usage:" "$code $(grep -o 'usage:' <<<"$said")"
refused wheel -o
expect "a flag without its value" "2 usage:" "$code $(grep -o 'usage:' <<<"$said")"

[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$(realpath "$1")")
[ -e "$build/libgantrain_trainer.so" ] || skip "the trainer library was not built"
command -v patchelf >/dev/null || skip "no patchelf"
mkdir "$tmp/nothing"
refused tree --build "$tmp/nothing" -o "$tmp/none"
expect "a folder without a build" "4 $tmp/nothing has no gantrain" "$code $(grep -o "$tmp/nothing has no gantrain" <<<"$said")"
refused tree --build "$build" -o /proc/nowhere
expect "a folder that cannot be written" "8 /proc/nowhere cannot be written" \
  "$code $(grep -o '/proc/nowhere cannot be written' <<<"$said")"

tree=$("$package" tree --build "$build" -o "$tmp/packages" | tail -n 1)
expect "one file" "gantrain-$("$1" --version | cut -d' ' -f2)-linux-x86_64.tar.gz" "$(ls -A "$tmp/packages")"
mkdir "$tmp/a place"
tar -C "$tmp/a place" -xzf "$tree"
top=$(echo "$tmp/a place"/*)
expect "no picture library of this system is used" "" \
  "$(ldd "$top/bin/gantrain" "$top"/lib/libgantrain_{trainer,serve}.so "$top"/lib/gantrain/lib{archive,zip}.so.* |
    grep -E 'lib(fmt|png|turbojpeg|webp|zip|archive|xml2|icu|crypto|ssl|brotli|cpp-httplib)' | grep '=>' | grep -vF "$top" || true)"
cd "$tmp"
code=0
"$top/bin/gantrain" doctor >"$tmp/said" 2>&1 || code=$?
expect "it computes from where it lies" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
expect "its licences come along" "LICENSE" "$(cd "$top/share/doc/gantrain" && ls LICENSE)"
