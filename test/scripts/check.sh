#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the shell tests share; sourced. Gives $root (the checkout), $tmp (a folder of the test's own,
# removed at its end), expect and skip.
set -euo pipefail
# shellcheck disable=SC2034 # for those who source this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tmp=$(mktemp -d)
at_end() { rm -rf "$tmp"; }
trap at_end EXIT

# expect WHAT WANTED GOT: ends the test unless the two texts are equal.
expect() {
  [ "$2" = "$3" ] && return
  printf 'FAILED: %s\n  wanted: %s\n  got:    %s\n' "$1" "$2" "$3" >&2
  exit 1
}

# ctest shows the test as skipped, test.sh prints the reason.
skip() {
  echo "SKIP: $*"
  exit 77
}

# program FILE: an executable made of standard input.
program() {
  mkdir -p "$(dirname "$1")"
  { echo '#!/usr/bin/env bash'; cat; } >"$1"
  chmod +x "$1"
}

# open_runpaths FILE...: those that look for libraries in the current folder or in one named from it. Anybody's data could
# lie there.
open_runpaths() {
  local file entries entry
  for file; do
    entries=$(readelf -d "$file" 2>/dev/null | sed -n 's/.*R\(UN\)\?PATH).*\[\(.*\)\]$/:\2:/p')
    [ -n "$entries" ] || continue
    entries=${entries#:}
    while [ -n "$entries" ]; do
      entry=${entries%%:*} entries=${entries#*:}
      case $entry in /* | '$ORIGIN' | '$ORIGIN/'*) ;; *) echo "$(basename "$file"): '$entry'" ;; esac
    done
  done
}
