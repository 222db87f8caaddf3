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

# wait_for SECONDS COMMAND...: until the command is true; ends the test if it is not by then.
wait_for() {
  local i
  for ((i = 0; i < 10 * $1; i++)); do
    ! "${@:2}" >/dev/null 2>&1 || return 0
    sleep 0.1
  done
  expect "${*:2} within $1 s" yes no
}

pid_of() { # pid_of RUN_FOLDER RANK: of a worker
  local file=$1/errors/pids-rank$2.json
  [ "$2" != 0 ] || file=$1/errors/pids.json
  sed -n "s/^ *\"$2\": \([0-9]*\),*/\1/p" "$file"
}

# expect_named RUN_FOLDER SIGNAL RANK COMMAND...: two workers of another launcher train, and the signal (KILL or STOP) strikes
# that rank: STATUS and the last error that is printed name it, not the one that heard of it.
expect_named() {
  local run=$1 signal=$2 rank=$3 launcher pid
  "${@:4}" "${TINY[@]}" --kimg 5000 --save-every 1 --hang-timeout 3s --run-dir "$run" >"$run.out" 2>&1 &
  launcher=$!
  wait_for 120 grep -q '^speed  ' "$run.out"
  pid=$(pid_of "$run" "$rank")
  kill -"$signal" "$pid"
  : >"$run.struck"
  wait_for 60 grep -q '^failed ' "$run/STATUS"
  kill -CONT "$pid" 2>/dev/null || true # so that its launcher need not wait to kill it
  wait "$launcher" && expect "$run fails" yes no
  expect "STATUS of $run" "rank $rank" "$(grep -o 'rank [01]' "$run/STATUS" | head -n 1)"
  expect "the last error of $run" "rank $rank" "$(grep '^error ' "$run.out" | tail -n 1 | grep -o 'rank [01]' | head -n 1)"
  expect "the cause of $run" true "$(grep -o '"first_cause": [a-z]*' "$run/errors/rank$rank.json" | cut -d' ' -f2)"
}

# beside expect_named ...: the same in the background, begun as soon as the one before has struck: what follows are other
# programs' graces and timeouts, in which nobody computes. all_named waits for all of them.
named=()
beside() {
  "$@" &
  named+=($!)
  wait_for 180 [ -e "$2.struck" ]
}
all_named() {
  local one
  for one in "${named[@]}"; do wait "$one" || exit 1; done
  named=()
}
