#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show, in four parts of at most 9 minutes: lives, right, fast, breaks.
# It stops at nothing, and what a former call for the same DIR has finished is not done again.
#   scripts/gpu_check.sh [OPTIONS]
#   --out DIR        for the results, a flat folder of at most 8 files (gpu_check/ here); runs go to DIR.runs
#   --only PART,...  these parts instead of all
#   --steps NAME,... these steps of them, as results.jsonl names them; a name may be a pattern ("lives_*")
#   --again          what was finished is done again
#   --minutes N      the longest that a part may take in a call (9); the rest is for the next call
#   --gantrain FILE  a built program instead of this checkout's, which is built where that is needed
#   --tests DIR      the folder of test_cuda_device (beside the program)
#   --official DIR   a checkout of StyleGAN2's official PyTorch code, to run it beside
#   --python FILE    that has torch 2.11 (GANTRAIN_PYTHON; an unpacked archive: python3)
#   --pack FILE      only writes an archive (.tar.xz, at most 28 MiB) that runs where a driver, Python
#                    with torch 2.11.0+cu130 and a shell are: tar -xf FILE (or python3 -m tarfile -e
#                    FILE), then gpu_check/scripts/gpu_check.sh
#   --run COMMAND... only runs gantrain, test_cuda_device or any command with the same libraries
# DIR/results.jsonl grows with each result; table.txt and gpu_check.json are made from it, answers.jsonl has
# the benchmarks' own words and log.txt what was said.
# Exit: 0 nothing failed, 1 something did, 75 something is not finished: the same command goes on. Without
# a GPU its steps are skipped, and those of the CPU run.
set -uo pipefail
unset CDPATH # with which cd prints where it went
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command_line="$0 $*"
out=gpu_check only=lives,right,fast,breaks steps='*' again='' gpus=0 gantrain='' tests='' official=''
python=${GANTRAIN_PYTHON:-} minutes=9 pack='' run=()
usage() { sed -n '3,24s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while (($#)); do
  case $1 in
    --again) again=yes; shift; continue ;;
    --run) (($# > 1)) || usage; run=("${@:2}"); break ;;
    --out | --only | --steps | --gantrain | --tests | --official | --python | --minutes | --pack) (($# > 1)) || usage ;;
    *) usage ;;
  esac
  printf -v "${1#--}" %s "$2"
  shift 2
done
[[ $minutes =~ ^[0-9]{1,4}$ ]] || usage
for part in ${only//,/ }; do
  case $part in lives | right | fast | breaks) ;; *) usage ;; esac
done

. "$root/scripts/gpu_check/report.sh"
. "$root/scripts/gpu_check/libraries.sh"
if [ -n "$pack" ]; then
  . "$root/scripts/gpu_check/pack.sh"
  make_pack "$pack" "${gantrain:-$root/build/gantrain}"
  exit
fi
. "$root/scripts/gpu_check/lives_right.sh"
. "$root/scripts/gpu_check/fast_breaks.sh"

# An archive's program lies here; a checkout's is built.
packed=''
if [ -e "$root/COMMIT" ] && [ -x "$root/bin/gantrain" ]; then packed=yes gantrain=${gantrain:-$root/bin/gantrain}; fi
find_libraries || exit 4
if ((${#run[@]})); then
  PATH=$(dirname "${gantrain:-$root/build/gantrain}"):$PATH exec "${run[@]}"
fi
mkdir -p "$out" "$out.runs" || exit 8
out=$(cd "$out" && pwd)
runs=$(cd "$out.runs" && pwd)
python3 -c '' || { echo "gpu_check: python3 is needed" >&2; exit 4; }
touch "$out/results.jsonl" "$out/answers.jsonl" "$out/log.txt"

built() {
  [ -z "$gantrain" ] || return 0
  gantrain=$root/build/gantrain part=lives step=build deadline=$((SECONDS + 3600))
  check "the build" 3500 env GANTRAIN_CUDA="${GANTRAIN_CUDA:-AUTO}" "$root/scripts/build.sh" release gantrain_program test_cuda_device
  [ -x "$gantrain" ]
}
built || { show; exit 1; }
if [ ! -f "$gantrain" ] || [ ! -x "$gantrain" ]; then echo "gpu_check: $gantrain is no program" >&2; exit 2; fi
gantrain=$(cd "$(dirname "$gantrain")" && pwd)/$(basename "$gantrain")
tests=${tests:-$(dirname "$gantrain")}
export gantrain out runs root

# GPUs that the program would use. A doctor that cannot say so is a failure, and not "none".
count_gpus() {
  local seen
  run_limited "${GPU_CHECK_DOCTOR_SECONDS:-240}" "$gantrain" doctor --json
  gpus=$(number "$(last_line)" 'int(j["gpus"])')
  seen=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
  if [ "$status" != 0 ] || [ -z "$gpus" ]; then
    ((late)) || row "the GPUs are counted" FAIL "$spent" "gantrain doctor gave no number (exit $status): $(last_line)"
    gpus=0 why_no_gpu="gantrain doctor gave no number of GPUs"
  elif ((gpus == 0 && seen > 0)) && [ -z "${CUDA_VISIBLE_DEVICES+set}" ]; then
    row "the GPUs are counted" FAIL "$spent" "the driver shows $seen, gantrain doctor none: $(number "$(last_line)" 'j["device"]')"
  else
    row "the GPUs are counted" PASS "$spent" "$gpus"
  fi
}
why_no_gpu="no GPU is visible"
gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
note_call

counted=''
for part in lives right fast breaks; do
  [[ ,$only, == *,"$part",* ]] || continue
  deadline=$((SECONDS + 10#$minutes * 60 - 15)) # ends what runs, with 10 s to end
  ((10#$minutes > 0)) || deadline=$SECONDS
  if [ -z "$counted" ]; then
    begin_step doctor
    count_gpus
    end_step
    counted=yes
  fi
  "part_$part" || true
  show >/dev/null # so that a machine that is taken away leaves what was found
done
if [ -z "$matched" ]; then echo "gpu_check: --steps $steps: no such step in $only" >&2; exit 2; fi
show
