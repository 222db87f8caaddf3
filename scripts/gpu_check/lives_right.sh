# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# The parts lives and right of gpu_check.sh. Sourced; uses report.sh. Settings: gantrain, tests, out, runs,
# official, python, gpus.

tiny="dcgan-tiny pggan-tiny stylegan1-tiny stylegan2-tiny stylegan3-tiny r3gan-tiny projected-tiny"

# A short run: train FOLDER PRESET FLAGS...; 20 iterations of 8 pictures, nothing else, from scratch.
train() {
  rm -rf "$1"
  train_on "$@" --resume none
}
train_on() {
  "$gantrain" --preset "$2" --run-dir "$1" --batch 8 --kimg 0.16 --threads "${threads:-2}" --nproc 1 \
    --set metrics.names=none --set samples.every=1000 "${@:3}"
}
compare() { python3 "$root/scripts/gpu_check/compare.py" "$@"; }
export -f train train_on compare

test_program() { # skips the check NAME where the tests were not built
  [ ! -x "$tests/test_cuda_device" ] || return 0
  skip_check "$1" "$tests has no test_cuda_device: scripts/build.sh release test_cuda_device"
  return 1
}
device_tests() { # device_tests NAME SECONDS SPECIFICATION: at least one test must have run
  test_program "$1" || return
  check "$1" "$2" "$tests/test_cuda_device" --durations yes --warn NoTests "$3"
}

part_lives() {
  steps machine
  gpu_steps driver nccl kernels_start recording waits
  local preset
  for preset in $tiny; do
    eval "step_lives_${preset%-tiny}() { lives $preset; }"
    gpu_steps "lives_${preset%-tiny}"
  done
}

step_machine() {
  check "gantrain --version" 10 "$gantrain" --version
  check "gantrain doctor" "${GPU_CHECK_DOCTOR_SECONDS:-240}" "$gantrain" doctor
  printf '%s\n' "$output" >"$out/doctor.txt"
  check "the program's libraries are found" 60 libraries_found
}
# What cannot be found, but for the driver's own libraries, which are there only with a GPU.
libraries_found() {
  local folder file missing found=0
  folder=$(dirname "$(readlink -f "$gantrain")")
  for file in "$folder"/libgantrain_*.so "$folder"/../lib/libgantrain_*.so "$tests/test_cuda_device"; do
    [ -e "$file" ] || continue
    found=$((found + 1))
    missing=$(ldd "$file" | grep 'not found' | grep -v 'libcuda\.so\|libnvidia-ml' || true)
    [ -z "$missing" ] || { echo "$file: $missing"; return 1; }
  done
  ((found > 0)) || { echo "there are no libraries beside $gantrain"; return 1; }
}
export -f libraries_found
export tests

step_driver() {
  run_limited 60 nvidia-smi
  printf '\n%s\n' "$output" >>"$out/doctor.txt"
  figure "GPU and driver" "${gpu_name:+$gpu_name, $driver}"
}
step_nccl() { device_tests "NCCL, a group of one rank" 120 "Nccl*"; }
step_kernels_start() { device_tests "kernels run" 120 "KernelBiasAct*,KernelDraws*"; }
step_recording() { device_tests "recording" 300 "Graphs*,ARecording*"; }
step_waits() { device_tests "waits and batches" 300 "NoIteration*,AWait*,Batches*"; }

# 70 iterations, so that a phase of every 16th is recorded and replayed; no iteration may wait for the device.
lives() {
  check "$1: 70 iterations with graphs, none waits" 120 train "$runs/lives" "$1" --device cuda --graphs on \
    --set train.sync_debug=on --kimg 0.56 -v
  ((status != 0)) || figure "$1: phases recorded" "$(grep -c 'recorded as a graph' <<<"$output")"
}

part_right() {
  gpu_steps numbers
  local preset
  for preset in $tiny; do
    eval "step_same_${preset%-tiny}() { same_as_cpu $preset cuda; }"
    gpu_steps "same_${preset%-tiny}"
  done
  for preset in dcgan-tiny stylegan2-tiny; do
    eval "step_resume_${preset%-tiny}() { resumes $preset cuda; }"
  done
  gpu_steps resume_dcgan resume_stylegan2 two_workers ranks
  steps compares
}

step_numbers() { device_tests "kernels against float64, every type and layout" 300 "Kernel*"; }

# same_as_cpu PRESET DEVICE. Plain gradient descent keeps rounding small (at most 1e-4 of what four iterations
# change), so it shows what is wrong; Adam shows that the whole of it trains alike. How far roundings carry is seen
# on the CPU: with plain operators, and with one thread, whose sums have another order.
same_as_cpu() {
  local preset=$1 device=$2 rate=1e-2 folder kind
  case $preset in # whose batch norm grows rounding errors faster
    dcgan-tiny) rate=1e-3 ;;
    projected-tiny) rate=1e-5 ;;
  esac
  local descent=(--kimg 0.032 --set G.optimizer=sgd --set D.optimizer=sgd --set "G.sgd.lr=$rate" --set "D.sgd.lr=$rate")
  for kind in descent adam; do
    [ $kind = descent ] || descent=()
    for folder in cpu ref one other; do
      local flags=(--device cpu) of=2
      [ $folder != ref ] || flags+=(--kernels ref)
      [ $folder != one ] || of=1
      [ $folder != other ] || flags=(--device "$device")
      threads=$of check "$preset, $kind: trains ($folder)" 120 train "$runs/$kind-$folder" "$preset" --seed 3 --save-raw \
        "${flags[@]}" "${descent[@]}" || return
    done
  done
  check "$preset: 4 iterations of descent as on the CPU" 60 compare weights "$runs/descent-cpu" "$runs/descent-ref,$runs/descent-one" "$runs/descent-other" 3e-4 3e-3
  check "$preset: 20 iterations of Adam as on the CPU" 60 compare weights "$runs/adam-cpu" "$runs/adam-ref,$runs/adam-one" "$runs/adam-other" 2e-2 0.5
  check "$preset: their losses" 30 compare losses "$runs/adam-cpu" "$runs/adam-ref,$runs/adam-one" "$runs/adam-other" 2e-2
  for folder in cpu "$device"; do
    rm -rf "$runs/pictures-$folder"
    check "$preset: generate, $folder" 60 "$gantrain" generate --model "$runs/adam-cpu" --seeds 0-15 --format npy \
      --device "$folder" --outdir "$runs/pictures-$folder" || return
  done
  check "$preset: the same pictures" 60 compare pictures "$runs/pictures-cpu" "$runs/pictures-$device" 1e-3
}
# The same comparison with a rounding of its own in the GPU's place, which shows that it holds.
step_compares() {
  local ref=(--kimg 0.032 --set G.optimizer=sgd --set D.optimizer=sgd --seed 3 --save-raw --device cpu)
  check "descent on the CPU" 60 train "$runs/c-cpu" pggan-tiny "${ref[@]}"
  check "with plain operators" 60 train "$runs/c-ref" pggan-tiny "${ref[@]}" --kernels ref
  check "in two halves" 60 train "$runs/c-halves" pggan-tiny "${ref[@]}" --accumulate 2
  check "with a wrong rate" 60 train "$runs/c-wrong" pggan-tiny "${ref[@]}" --set D.sgd.lr=1.01e-2
  check "another order of sums is the same" 30 compare weights "$runs"/c-{cpu,ref,halves} 3e-4 3e-3
  check_fails "a rate 1 % wrong is not" 1 "differs" 30 compare weights "$runs"/c-{cpu,ref,wrong} 3e-4 3e-3
}

# resumes PRESET DEVICE: a run that was stopped and went on has the bits of one that was not.
resumes() {
  local flags=(--device "$2" --deterministic --seed 3)
  check "$1: 40 iterations" 120 train "$runs/whole" "$1" "${flags[@]}" --kimg 0.32 --set save.every=0.16 || return
  check "$1: 20 of them" 120 train "$runs/halves" "$1" "${flags[@]}" --kimg 0.16 --set save.every=0.16 || return
  check "$1: and 20 more" 120 train_on "$runs/halves" "$1" "${flags[@]}" --kimg 0.32 --set save.every=0.16 || return
  check "$1: resumed bits are those of one run" 30 compare same "$runs/whole" "$runs/halves"
}

# Two workers as a foreign launcher starts them, on one device: their sums go through gloo.
two_workers() { # two_workers FOLDER PORT FLAGS...
  local rank pids=() code=0
  rm -rf "$1"
  for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$2 \
      "$gantrain" --preset stylegan2-tiny --run-dir "$1" --batch 8 --kimg 0.16 --resume none --threads 1 \
      --set metrics.names=none --set samples.every=1000 --backend gloo --seed 3 "${@:3}" 2>&1 &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank" || code=$?; done
  return "$code"
}
export -f two_workers
step_two_workers() {
  check "two gloo workers on one GPU, graphs" 180 two_workers "$runs/two" $((20000 + $$ % 10000)) --device cuda --graphs on
}

step_ranks() {
  if ((gpus < 2)); then skip_check "ranks on all GPUs" "one GPU"; return; fi
  check "ranks on all GPUs ($gpus)" 180 train "$runs/ranks" dcgan-tiny --device cuda --nproc "$gpus" --batch $((8 * gpus))
  check "two ranks" 120 train "$runs/two" stylegan2-tiny --device cuda --nproc 2 --deterministic --save-raw
  check "one rank, two halves" 120 train "$runs/halves" stylegan2-tiny --device cuda --accumulate 2 --deterministic --save-raw
  check "two ranks are two accumulated halves" 60 compare largest "$runs/two" "$runs/halves" 1e-6
}
