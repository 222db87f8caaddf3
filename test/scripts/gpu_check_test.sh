#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh where no GPU is: its other steps run, it stops at nothing, goes on where it was stopped, and its table
# and JSON agree. A stand-in for the program plays a machine with a GPU on which things go wrong.
#   gpu_check_test.sh GANTRAIN
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=${1:?}
export CUDA_VISIBLE_DEVICES=

verdicts() { # verdicts FILE EXPRESSION: of the checks in the JSON
  python3 -c 'import collections, json, sys
whole = json.load(open(sys.argv[1]))
checks = whole["checks"]
of = collections.defaultdict(list)
for c in checks: of[c["verdict"]].append(c["check"])
print(eval(sys.argv[2]))' "$1" "$2"
}
check_gpu() { # check_gpu FOLDER FLAGS...: sets status
  status=0
  "$root/scripts/gpu_check.sh" --out "$@" >"$tmp/table" 2>"$tmp/progress" || status=$?
}

# The real program.
check_gpu "$tmp/real" --gantrain "$gantrain" --only lives,breaks
expect "nothing fails without a GPU: $(grep FAIL "$tmp/table" || true)" 0 "$status"
json=$tmp/real/gpu_check.json
expect "the program ran" True "$(verdicts "$json" '{"gantrain --version", "a smoke run on the CPU", "a device that is not there"} <= set(of["PASS"])')"
expect "each skipped step says why" True "$(verdicts "$json" 'len(of["SKIP"]) > 8 and all(c["text"] for c in checks if c["verdict"] == "SKIP")')"
expect "every check has a row in the table" True "$(verdicts "$json" "all(c['check'] in open('$tmp/table').read() for c in checks)")"
expect "at most eight files, in one folder" yes "$( (($(find "$tmp/real" -mindepth 1 | wc -l) <= 8)) && [ -z "$(find "$tmp/real" -mindepth 1 -type d)" ] && echo yes)"

# Stand-ins: a GPU is there, says doctor; the device's tests skip for another reason.
program "$tmp/bin/gantrain" <<'FAKE'
echo "$*" >>"${0%/*}/calls"
case $* in
  *doctor\ --json*) cat "${0%/*}/doctor" ;;
  *) echo 'a line with "quotes" and \ before'; exit 9 ;;
esac
FAKE
program "$tmp/bin/test_cuda_device" <<'FAKE'
echo "  skipped: the CUDA library cannot be loaded"
FAKE
echo '{"gpus": 1}' >"$tmp/bin/doctor"
check_gpu "$tmp/fake" --gantrain "$tmp/bin/gantrain" --only lives
json=$tmp/fake/gpu_check.json
expect "failures give 1" 1 "$status"
expect "they are all noted, and it goes on to its end" True \
  "$(verdicts "$json" '{"gantrain --version", "gantrain doctor", "r3gan-tiny: 70 iterations with graphs, none waits"} <= set(of["FAIL"])')"
expect "with what was said" True "$(verdicts "$json" "any('quotes' in c['text'] for c in checks)")"
expect "a test that was skipped where a GPU is has failed" True \
  "$(verdicts "$json" '{"NCCL, a group of one rank", "kernels run", "recording", "waits and batches"} <= set(of["FAIL"])')"
expect "with its reason" True "$(verdicts "$json" "any('cannot be loaded' in c['text'] for c in checks)")"

# What was finished is not done again, but for doctor; --again does it.
done_before=$(wc -l <"$tmp/bin/calls")
check_gpu "$tmp/fake" --gantrain "$tmp/bin/gantrain" --only lives
expect "a second call asks doctor alone" 1 "$(($(wc -l <"$tmp/bin/calls") - done_before))"
expect "and says the same" 1 "$status"
check_gpu "$tmp/fake" --gantrain "$tmp/bin/gantrain" --only lives --again
expect "--again does all of it" "$done_before" "$(($(wc -l <"$tmp/bin/calls") - done_before - 1))"
expect "each check has one row" True "$(verdicts "$json" 'len({(c["part"], c["check"]) for c in checks}) == len(checks)')"
printf '{"part": "lives", "st' >>"$tmp/fake/results.jsonl" # a machine that was taken away
check_gpu "$tmp/fake" --gantrain "$tmp/bin/gantrain" --only lives
expect "a line that was cut off does no harm" 1 "$status"

# A doctor that says nothing, or that takes too long, is no machine without GPUs.
echo 'it crashed' >"$tmp/bin/doctor"
check_gpu "$tmp/mute" --gantrain "$tmp/bin/gantrain" --only right
expect "a doctor without an answer fails" "1 True" "$status $(verdicts "$tmp/mute/gpu_check.json" '"the GPUs are counted" in of["FAIL"]')"
program "$tmp/slow/gantrain" <<'FAKE'
exec sleep 600
FAKE
began=$SECONDS
GPU_CHECK_DOCTOR_SECONDS=1 check_gpu "$tmp/slow/out" --gantrain "$tmp/slow/gantrain" --only fast
expect "a slow doctor fails" "1 True" "$status $(verdicts "$tmp/slow/out/gpu_check.json" '"the GPUs are counted" in of["FAIL"]')"
check_gpu "$tmp/slow/none" --gantrain "$tmp/slow/gantrain" --minutes 0
expect "without time all is unfinished" "75 True" "$status $(verdicts "$tmp/slow/none/gpu_check.json" 'whole["unfinished"] > 2 and not of["PASS"]')"
expect "a hanging program is not waited for" yes "$( ((SECONDS - began < 60)) && echo yes)"

for wrong in --nonsense "--only quick" "--minutes x" "--only breaks --steps nonsense --gantrain $gantrain"; do
  # shellcheck disable=SC2086 # two words
  check_gpu "$tmp/wrong" $wrong
  expect "$wrong is refused" 2 "$status"
done
