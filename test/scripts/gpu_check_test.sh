#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh where no GPU is: its other parts run, it stops at nothing, and its table and JSON agree.
#   gpu_check_test.sh GANTRAIN
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=${1:?}
export CUDA_VISIBLE_DEVICES=

verdicts() { # verdicts FILE EXPRESSION: of the checks in the JSON
  python3 -c 'import collections, json, sys
checks = json.load(open(sys.argv[1]))["checks"]
of = collections.defaultdict(list)
for c in checks: of[c["verdict"]].append(c["check"])
print(eval(sys.argv[2]))' "$1" "$2"
}

# The real program.
status=0
"$root/scripts/gpu_check.sh" --gantrain "$gantrain" --out "$tmp/real" --minutes 4 >"$tmp/table" 2>"$tmp/progress" || status=$?
expect "nothing fails without a GPU: $(grep FAIL "$tmp/table" || true)" 0 "$status"
json=$tmp/real/gpu_check.json
expect "the program ran" True "$(verdicts "$json" '"gantrain --version" in of["PASS"] and "a smoke run on the CPU" in of["PASS"]')"
expect "the wrong device is refused" True "$(verdicts "$json" '"a device that is not there" in of["PASS"]')"
expect "each skipped check says why" True "$(verdicts "$json" 'len(of["SKIP"]) > 8 and all(c["text"] for c in checks if c["verdict"] == "SKIP")')"
expect "every check has a row in the table" True "$(verdicts "$json" "all(c['check'] in open('$tmp/table').read() for c in checks)")"

# A program that fails at everything: each failure is a row, and the check goes on to its end.
program "$tmp/bin/gantrain" <<'FAKE'
echo 'a line with "quotes" and \ before'
exit 9
FAKE
status=0
"$root/scripts/gpu_check.sh" --gantrain "$tmp/bin/gantrain" --out "$tmp/fake" --minutes 2 >/dev/null 2>&1 || status=$?
expect "failures give 1" 1 "$status"
json=$tmp/fake/gpu_check.json
expect "they are all noted" True "$(verdicts "$json" '{"gantrain --version", "gantrain doctor", "an unknown preset", "a smoke run on the CPU"} <= set(of["FAIL"])')"
expect "with what was said" True "$(verdicts "$json" "any('quotes' in c['text'] for c in checks)")"

# A program that hangs is ended at its check's limit, here that of the whole.
program "$tmp/slow/gantrain" <<'FAKE'
sleep 600
FAKE
began=$SECONDS
"$root/scripts/gpu_check.sh" --gantrain "$tmp/slow/gantrain" --out "$tmp/slow/out" --minutes 0 >/dev/null 2>&1 || true
expect "a hanging program is not waited for" yes "$( ((SECONDS - began < 30)) && echo yes)"

status=0
"$root/scripts/gpu_check.sh" --nonsense >/dev/null 2>&1 || status=$?
expect "an unknown option is refused" 2 "$status"
