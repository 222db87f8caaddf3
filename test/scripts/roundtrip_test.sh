#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# roundtrip_test.sh GANTRAIN: a short run, read with Python's torch, safetensors, tensorboard and Pillow.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
"$1" --preset dcgan-tiny --nproc 1 --device cpu --kimg 1 --run-dir "$tmp/run"
expect "STATUS is written" yes "$([ -s "$tmp/run/STATUS" ] && echo yes)"
"${GANTRAIN_PYTHON:-python3}" "$root/test/python/roundtrip.py" "$tmp/run"
