#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The archive of gpu_check.sh --pack: unpacked in an empty folder it runs with the libraries of a Python's PyTorch.
# PyTorch's own libraries stand in for the whole package.
#   gpu_pack_test.sh GANTRAIN
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$(realpath "$1")")
[ -e "$build/test_cuda_device" ] || skip "test_cuda_device was not built"
command -v patchelf >/dev/null || skip "no patchelf"
torch=$(sed -n 's/^GANTRAIN_TORCH_CPU:[A-Z]*=\(.*\)\/libtorch_cpu.so$/\1/p' "$build/CMakeCache.txt")
[ -e "$torch/libtorch_cpu.so" ] || skip "LibTorch is not a folder of libraries"

status=0
"$root/scripts/gpu_check.sh" --pack "$tmp/none.tar.xz" --gantrain "$tmp/nothing" 2>/dev/null || status=$?
expect "without a program there is no archive" 4 "$status"
GANTRAIN_PACK_LEVEL=1 GANTRAIN_PACK_WITHOUT_CUDA=yes "$root/scripts/gpu_check.sh" --pack "$tmp/pack.tar.xz" --gantrain "$1" 2>/dev/null
expect "nothing is left beside it" pack.tar.xz "$(ls "$tmp")"
expect "at most 28 MiB" yes "$( (($(stat -c %s "$tmp/pack.tar.xz") <= 28 * 1024 * 1024)) && echo yes)"
mkdir "$tmp/empty" "$tmp/site"
cd "$tmp/empty"
tar -xf ../pack.tar.xz
expect "it names its commit" yes "$([ -s gpu_check/COMMIT ] && echo yes)"
expect "nothing leads to the build" "" "$(open_runpaths gpu_check/bin/*; readelf -d gpu_check/bin/* 2>/dev/null | grep RUNPATH | grep -v 'ORIGIN/libraries' || true)"

# A machine without this one's variables, whose Python has PyTorch, or has not.
go() { status=0; said=$(env -i PATH=/usr/bin:/bin HOME="$tmp" CUDA_VISIBLE_DEVICES= "$@" 2>&1) || status=$?; }
mkdir -p "$tmp/site/torch"
touch "$tmp/site/torch/__init__.py"
echo "__version__ = '2.10.0+cu130'" >"$tmp/site/torch/version.py"
go PYTHONPATH="$tmp/site" gpu_check/scripts/gpu_check.sh --only lives
expect "another PyTorch is refused" "4 2.10.0" "$status $(grep -o '2\.10\.0' <<<"$said" | head -n 1)"
echo "__version__ = '2.11.0+cu130'" >"$tmp/site/torch/version.py"
ln -s "$torch" "$tmp/site/torch/lib"
go PYTHONPATH="$tmp/site" gpu_check/scripts/gpu_check.sh --out results --only lives
expect "lives passes: $said" 0 "$status"
expect "the libraries are found" yes "$(grep -q "libraries are found *PASS" results/table.txt && echo yes)"
expect "the GPU's steps are skipped and say so" yes "$( (($(grep -c 'SKIP .*no GPU is visible' results/table.txt) >= 10)) && echo yes)"
expect "table and JSON agree" "$(grep -c 'PASS\|SKIP' results/table.txt)" "$(python3 -c 'import json; print(len(json.load(open("results/gpu_check.json"))["checks"]))')"
go PYTHONPATH="$tmp/site" gpu_check/scripts/gpu_check.sh --out results --only lives
expect "a second call does nothing again" "0 yes" "$status $(grep -q 'done *lives: machine' <<<"$said" && echo yes)"
go GANTRAIN_TORCH_LIB="$torch" gpu_check/scripts/gpu_check.sh --run gantrain doctor
expect "its program runs with named libraries" "0 yes" "$status $(grep -q '^libtorch *2\.11\.0' <<<"$said" && echo yes)"
go PYTHONPATH="$tmp/site" gpu_check/scripts/gpu_check.sh --run test_cuda_device "KernelPixelNorm*"
expect "its tests do, too" "0 yes" "$status $(grep -q 'skipped: ' <<<"$said" && echo yes)"
