#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the shell tests share; sourced. Gives $root (the checkout), $tmp (a folder of the test's own,
# removed at its end), expect and skip.
set -euo pipefail
unset CDPATH
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

# as_reader COMMAND...: by somebody who may not write what belongs to whoever runs the test; `may_not_write FOLDER` for others
# than root.
as_reader() {
  if [ "$EUID" = 0 ]; then setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; else "$@"; fi
}
may_not_write() { [ "$EUID" = 0 ] || chmod -R a-w "$1"; }

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

# quickly GANTRAIN: sets `quick` to a program that does what GANTRAIN does, in a fork of a process that has loaded the trainer
# library already (test/support/program_starter.cpp), which takes longer than most commands. For scripts that look at what
# commands leave and say, not at their processes.
quickly() {
  local build
  build=$(dirname "$(realpath "$1")")
  # shellcheck disable=SC2034 # for those who source this
  quick=$1
  [ -x "$build/test/gantrain" ] || return 0
  # shellcheck disable=SC2034
  quick=$build/test/gantrain
  export GANTRAIN_TEST_SOCKET=$tmp/starter
  LD_PRELOAD=$build/test/libgantrain_starter.so GANTRAIN_TEST_STARTER=$GANTRAIN_TEST_SOCKET "$1" </dev/null >/dev/null 2>&1 &
}

# ended_at FILE COMMAND...: runs the command, which says everything in $tmp/said, and ends it once the file has something in it.
# Sets `code` to what it ended with.
ended_at() {
  local file=$1 pid
  shift
  "$@" >"$tmp/said" 2>&1 &
  pid=$!
  while [ ! -s "$file" ]; do sleep 0.1; done
  kill "$pid"
  # shellcheck disable=SC2034 # for those who source this
  code=0
  # shellcheck disable=SC2034
  wait "$pid" || code=$?
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
