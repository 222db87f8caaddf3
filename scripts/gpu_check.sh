#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show, in at most 30 minutes: stops at nothing, prints one table of checks
# and figures, and writes it to DIR/gpu_check.json.  scripts/gpu_check.sh [OPTIONS]
#   --out DIR        for the table, the log and the runs (gpu_check/ here)
#   --gantrain FILE  a built program instead of this checkout's, which is built where that is needed
#   --tests DIR      the folder of test_cuda_device (beside the program)
#   --official DIR   a checkout of StyleGAN2's official PyTorch code, to run it beside
#   --python FILE    that has torch 2.11, for the same (GANTRAIN_PYTHON)
#   --minutes N      the longest that all of it may take (30)
# Exit: 0 nothing failed, 1 something did. Without a GPU its parts are skipped and the others run.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command_line="$0 $*"
out=gpu_check gpus=0 gantrain='' tests='' official='' python=${GANTRAIN_PYTHON:-} minutes=30
usage() { sed -n '3,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while (($#)); do
  case $1 in
    --out | --gantrain | --tests | --official | --python | --minutes)
      (($# > 1)) || usage
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *) usage ;;
  esac
done
[[ $minutes =~ ^[0-9]{1,4}$ ]] || usage

. "$root/scripts/gpu_check/report.sh"
. "$root/scripts/gpu_check/parts.sh"
mkdir -p "$out" || exit 8
out=$(cd "$out" && pwd)
: >"$out/log.txt"
deadline=$((10#$minutes * 60))

if [ -z "$gantrain" ]; then
  gantrain=$root/build/gantrain section=build
  check "the build" 1700 env GANTRAIN_CUDA="${GANTRAIN_CUDA:-AUTO}" "$root/scripts/build.sh" release gantrain_program test_cuda_device
  [ -x "$gantrain" ] || { print_table | tee "$out/table.txt"; write_json "$out/gpu_check.json"; exit 1; }
fi
if [ ! -f "$gantrain" ] || [ ! -x "$gantrain" ]; then echo "gpu_check: $gantrain is no program" >&2; exit 2; fi
gantrain=$(cd "$(dirname "$gantrain")" && pwd)/$(basename "$gantrain")
tests=${tests:-$(dirname "$gantrain")}

export gantrain out
export -f train libraries_found compare_models compare_pictures killed_rank number

# GPUs that the program would use, and their name.
run_limited 60 "$gantrain" doctor --json
gpus=$(number "$(last_line)" 'int(j["gpus"])')
gpus=${gpus:-0}
gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
why_no_gpu="no GPU is visible"

for part in machine same_as_cpu ranks kernels waits operators steps failures; do
  "part_$part" || true
  write_json "$out/gpu_check.json" # so that a machine that is taken away leaves what was found
done
print_table | tee "$out/table.txt"
write_json "$out/gpu_check.json"
(($(count_of FAIL) == 0))
