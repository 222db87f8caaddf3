#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tests on other systems share; sourced. Gives need_root, make_once and what check.sh and setup.sh give.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"

# need_room GIB: skips the test where the packages of another system cannot be fetched or kept.
need_room() {
  [ -z "${GANTRAIN_NO_SYSTEMS:-}" ] || skip "GANTRAIN_NO_SYSTEMS is set"
  [ "$(id -u)" = 0 ] || skip "unpacking another system's packages takes root"
  command -v debootstrap >/dev/null || skip "no debootstrap"
  unshare --mount true 2>/dev/null || skip "this container allows no mount namespace"
  [ -e "$LIBTORCH/lib/libtorch_cpu.so" ] || skip "no LibTorch in $LIBTORCH"
  mkdir -p "$GANTRAIN_CACHE_DIR"
  local free
  free=$(($(df --output=avail -k "$GANTRAIN_CACHE_DIR" | tail -n 1) >> 20))
  ((free >= $1)) || skip "$GANTRAIN_CACHE_DIR has $free GiB left; this takes $1"
}

# make_once FOLDER COMMAND...: COMMAND makes a new folder, which it is given last; it is kept under its name once
# it is whole. Skips the test where that fails, as without a network.
make_once() {
  [ ! -e "$1" ] || return 0
  local folder=$1 part=$GANTRAIN_CACHE_DIR/.part-${1##*/}
  rm -rf "$part"
  if ! "${@:2}" "$part" >"$tmp/made" 2>&1 </dev/null; then
    rm -rf "$part"
    skip "its packages could not be fetched: $(tail -n 1 "$tmp/made")"
  fi
  mv -T "$part" "$folder"
}

# The last lines of a log that tell why a build failed.
errors_of() { grep -E 'error|FAILED|Error' "$1" | head -n 12 || tail -n 12 "$1"; }
