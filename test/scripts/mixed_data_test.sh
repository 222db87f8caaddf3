#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mixed_data_test.sh GANTRAIN: pictures of all forms and ten broken files through inspect, pack and
# training. GANTRAIN_MIXED_MB: how many megabytes of pictures (6).
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=${GANTRAIN_PYTHON:-python3}
"$python" -c 'import numpy, PIL' 2>/dev/null || skip "no Python with numpy and Pillow"
"$python" "$root/test/python/mixed_data.py" "$1" "$tmp" "${GANTRAIN_MIXED_MB:-6}"
