#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pillow_test.sh GANTRAIN: --fit and --filter of `data pack` give Pillow's pixels.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=${GANTRAIN_PYTHON:-python3}
"$python" -c 'import numpy, PIL' 2>/dev/null || skip "no Python with numpy and Pillow"
"$python" "$root/test/python/pillow_parity.py" "$1" "$tmp"
