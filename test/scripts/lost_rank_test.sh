#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lost_rank_test.sh GANTRAIN: scripts/peers/lost_rank.py with two ranks, once each way. gantrain goes on from memory, or
# from a state on disk.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=${GANTRAIN_PYTHON:-python3}
"$python" -c 'import torch' 2>/dev/null || skip "no Python with PyTorch"
code=0
"$root/scripts/peers/lost_rank.py" --gantrain "$1" --python "$python" --ranks 2 --times 1 >"$tmp/said" 2>&1 || code=$?
expect "exit code; $(cat "$tmp/said")" 0 "$code"
tail -n 1 "$tmp/said" | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert found["ranks"] == 2, found
assert found["elastic"]["again"] is None and found["elastic"]["seconds"] > 0, found
assert found["restart"]["again"] >= 0, found
assert found["torchrun"]["again"] >= 0, found
assert found["launch"]["again"] >= 0, found'
