#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of foreign launchers share; sourced.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
TINY=(--preset dcgan-tiny --device cpu --threads 1 --resolution 16 --kimg 0.5 --batch 16 --metrics none)

# tiny GANTRAIN RUN_FOLDER FLAG...
tiny() { "$1" "${TINY[@]}" --run-dir "$2" "${@:3}"; }

weights() { # weights RUN_FOLDER: of the last model
  find "$1" -name 'model-*.safetensors' | sort | tail -1 | xargs sha256sum | cut -d' ' -f1
}

# expect_same_run ONE TWO: two ranks each, which made the same bits.
expect_same_run() {
  local run
  for run; do
    expect "ranks of $run" 2 "$(grep -o '"ranks": *[0-9]*' "$run/env.json" | grep -o '[0-9]*$')"
    expect "$run is done" "done" "$(cut -d' ' -f1 "$run/STATUS")"
  done
  expect "the weights of $2" "$(weights "$1")" "$(weights "$2")"
}
