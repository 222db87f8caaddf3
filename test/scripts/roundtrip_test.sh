#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# roundtrip_test.sh GANTRAIN: a short run, read with Python's torch, safetensors, tensorboard and Pillow, and directions, read
# with numpy.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
"$1" --preset dcgan-tiny --resolution 16 --batch 16 --nproc 1 --device cpu --threads 1 --kimg 3 --set train.tick=1 --run-dir "$tmp/run"
expect "STATUS is written" yes "$([ -s "$tmp/run/STATUS" ] && echo yes)"
python=${GANTRAIN_PYTHON:-python3}

# Directions in w, against numpy's on the same weights.
if "$python" -c 'import numpy, safetensors' 2>/dev/null; then
  for preset in stylegan2-tiny stylegan3-tiny; do
    "$1" --preset "$preset" --nproc 1 --device cpu --threads 1 --metrics none --kimg 0 --run-dir "$tmp/$preset"
    for method in sefa ganspace; do
      "$1" edit "$tmp/$preset" --device cpu --method "$method" --count 5 --seeds 0 --columns 2 -o "$tmp/$preset-$method"
      "$python" "$root/test/python/directions.py" "$(echo "$tmp/$preset"/model-*.safetensors)" "$tmp/$preset-$method/directions.npz"
    done
  done
fi
"$python" "$root/test/python/roundtrip.py" "$tmp/run"
