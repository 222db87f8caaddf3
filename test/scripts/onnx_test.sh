#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# onnx_test.sh GANTRAIN: ONNX Runtime draws gantrain's pictures from `gantrain export --to onnx`, and so does a browser on the
# page of `--to web`.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=${GANTRAIN_PYTHON:-python3}
"$python" -c 'import numpy, onnx, onnxruntime, PIL, safetensors' 2>/dev/null ||
  skip "no Python with numpy, onnx, onnxruntime, Pillow and safetensors"
quickly "$1"
"$python" "$root/test/python/onnx_pictures.py" "$quick" "$tmp" "$root"
browser=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser) ||
  skip "no chromium-headless-shell or chromium: the page was not looked at"
"$python" "$root/test/python/onnx_page.py" "$quick" "$tmp" "$root" "$browser"
