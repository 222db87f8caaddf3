#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What dist_train.sh and slurm_train.sh share; sourced.
set -euo pipefail
# With CDPATH, cd prints where it went.
launch_root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Prints the program: the build beside these scripts, else the one on PATH, else a new build.
find_gantrain() {
  if [ ! -x "$launch_root/build/gantrain" ]; then
    command -v gantrain && return
    "$launch_root/scripts/build.sh" release gantrain_program >&2
  fi
  echo "$launch_root/build/gantrain"
}

# shellcheck disable=SC2034 # config is for the caller
# Sets `config` to the flags that name CONFIG: a JSON file, or else a preset.
name_config() {
  if [ -f "$1" ] || [[ $1 == *.json ]]; then config=(--config "$1"); else config=(--preset "$1"); fi
}
