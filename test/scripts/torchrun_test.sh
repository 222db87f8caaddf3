#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# torchrun_test.sh GANTRAIN: torchrun's two workers are the two ranks that gantrain starts itself.
. "$(dirname "${BASH_SOURCE[0]}")/launcher.sh"
python=${GANTRAIN_PYTHON:-python3}
expect "torchrun starts python PROGRAM: that is the program" "$("$1" --version)" "$("$python" "$1" --version)"
[ -z "${GANTRAIN_NO_TORCH_REASON:-}" ] || skip "no torchrun: $GANTRAIN_NO_TORCH_REASON"
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null || skip "$python has no torch, so no torchrun"
torchrun() { timeout 250 "$python" -m torch.distributed.run --standalone --no-python --nproc-per-node 2 "$@"; }

tiny "$1" "$tmp/own" --nproc 2
torchrun "$1" "${TINY[@]}" --run-dir "$tmp/torchrun"
expect_same_run "$tmp/own" "$tmp/torchrun"
timeout 250 "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$1" "${TINY[@]}" --run-dir "$tmp/plain"
expect_same_run "$tmp/own" "$tmp/plain"

code=0
torchrun "$1" "${TINY[@]}" --run-dir "$tmp/bad" --set train.batch=15 2>"$tmp/bad.err" || code=$?
expect "torchrun fails with its workers" yes "$([ "$code" != 0 ] && echo yes)"
expect "a worker says why" yes "$(grep -q '^error   .*15' "$tmp/bad.err" && echo yes)"
expect "torchrun shows it as the cause" yes "$(grep -q 'traceback : .*15' "$tmp/bad.err" && echo yes)"

# One verdict, whoever started the ranks.
for rank in 0 1; do beside expect_named "$tmp/killed$rank" KILL "$rank" torchrun "$1"; done
beside expect_named "$tmp/stopped" STOP 0 torchrun "$1"
all_named

# A torchrun that is killed takes the ranks' store with it: the run has stopped, or says that it is gone.
agent_of() { sed -n 's/^ *"launcher": \([0-9]*\),*/\1/p' "$1/errors/pids.json"; }
torchrun "$1" "${TINY[@]}" --kimg 5000 --save-every 1 --run-dir "$tmp/orphan" >"$tmp/orphan.out" 2>&1 &
wait_for 120 grep -q '^speed  ' "$tmp/orphan.out"
kill -9 "$(agent_of "$tmp/orphan")"
wait_for 60 grep -q '^\(stopped\|failed\) ' "$tmp/orphan/STATUS"
expect "STATUS after torchrun was killed" 1 "$(grep -c '^stopped\|, which started this rank.* is gone' "$tmp/orphan/STATUS")"

# The benchmark's peer is such a script.
said=$(GANTRAIN_PYTHON=$python timeout 250 "$1" bench ddp --json --nets dcgan --ranks 2 --batch 2 --rounds 1 --steps 1 --pairs 1)
ratio=$(tail -n 1 <<<"$said" | "$python" -c 'import json, sys; c = json.load(sys.stdin)["nets"][0]["peer"][0]
print("ok" if c["batch"] == 4 and len(c["pairs"]) == 1 and 0.1 < c["ratio"] < 10 else c)')
expect "a ratio to PyTorch's DDP" ok "$ratio"
