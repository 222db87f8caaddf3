#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# modes_test.sh GANTRAIN: the experiment of stacked pictures in short. A small R3GAN knows most modes of ten shapes after some
# minutes; what was not trained shows fewer, and those unevenly. Takes about ten minutes of two cores.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
command -v python3 >/dev/null || skip "no python3"
cd "$tmp"
"$1" bench modes -q --json --presets r3gan-tiny --kimg 60 --stacked 20000 --samples 5000 -o out >result.json
"$1" train -q --preset r3gan-tiny --data out/data/stacked.npy --resolution 32 --kimg 0 --metrics none --run-dir untrained
"$1" bench modes -q --json --stacked 20000 --samples 5000 --models untrained -o out >both.json
python3 - result.json both.json <<'END'
import json
import sys
first, both = (json.loads(open(name).read().splitlines()[-1]) for name in sys.argv[1:])
assert first["accuracy"] > 0.9, first
assert first["reals"]["modes"] > 950, first
trained, untrained = both["models"]
assert trained == first["models"][0], both
assert untrained["images"] == 0 and trained["images"] == 60000, both
assert trained["modes"] > 450 and trained["modes"] > 1.5 * untrained["modes"], both
assert trained["kl"] < untrained["kl"] / 2, both
print(f'{trained["modes"]} modes, KL {trained["kl"]:.2f}; untrained {untrained["modes"]}, {untrained["kl"]:.2f}')
END
