# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# The parts fast and breaks of gpu_check.sh. Sourced; uses report.sh and lives_right.sh.

paper=(--preset stylegan2-paper256 --resolution 256 --set ada.mode=none --warm 5 --steps 3)

part_fast() {
  gpu_steps copy b64_graphs b64_plain b8_graphs b8_plain
  local type layout
  for type in float16 float32; do
    for layout in channels-last contiguous; do
      eval "step_ops_${type}_${layout/-/_}() { operators $type $layout; }"
      gpu_steps "ops_${type}_${layout/-/_}"
    done
  done
  gpu_steps profile memory official_code b64_ref dcgan pggan stylegan1 ratios
}

step_copy() {
  run_limited 120 "$gantrain" bench ops --device cuda --rounds 3 --json
  figure "copy bandwidth" "$(number "$(answer)" '"%.0f GB/s, read and written" % (j["copy_speed"]["median"] / 1e9)')"
  if [ -n "$python" ]; then
    run_limited 60 "$python" -c "$matmul_rate"
    figure "large fp16 product" "$(last_line | grep TFLOP)"
  else
    skip_check "large fp16 product" "--python names no Python with torch"
  fi
}
matmul_rate='
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
for _ in range(3): a @ a
torch.cuda.synchronize()
start = time.time()
for _ in range(20): a @ a
torch.cuda.synchronize()
print("%.0f TFLOP/s" % (20 * 2 * 8192**3 / (time.time() - start) / 1e12))'

# The least share of the copy bandwidth that a fused operator's forward pass has.
slowest_forward='min(o["of_copy_speed"]["median"] for o in j["ops"] if o["name"].endswith(" forward"))'
shares='"; ".join("%s %.0f %%" % (o["name"], 100 * o["of_copy_speed"]["median"]) for o in j["ops"]'
operators() { # operators TYPE LAYOUT
  local found
  run_limited 90 "$gantrain" bench ops --device cuda --dtype "$1" --layout "$2" --batch 32 --channels 128 --pixels 128 --json
  found=$(answer)
  figure "$1, $2" "$(number "$found" "$shares if \"backward\" not in o[\"name\"])")"
  figure "$1, $2, with backward" "$(number "$found" "$shares if \"backward\" in o[\"name\"])")"
  figure "$1, $2, slowest three" "$(number "$found" \
    '", ".join(o["name"] for o in sorted(j["ops"], key=lambda o: o["of_copy_speed"]["median"])[:3])')"
  at_most "$1, $2: 80 % of it, forward" "$(number "$found" "1 - $slowest_forward")" \
    0.2 "$(number "$found" "'the slowest has %.0f %%' % (100 * $slowest_forward)")"
}

# step_seconds NAME SECONDS FLAGS...: mean seconds of an iteration, noted as a figure, with the memory.
step_seconds() {
  local name=$1 found mean pictures ours='j["nets"][0]["rows"][0]'
  run_limited "$2" "$gantrain" bench step --device cuda --python "" --pairs 1 --json "${@:3}"
  found=$(answer)
  mean=$(number "$found" "${ours}[\"median\"]")
  if [ -z "$mean" ]; then
    row "$name" FAIL "$spent" "exit $status: $(last_line)"
    return 1
  fi
  pictures=$(number "$found" "${ours}[\"batch\"]")
  figure "$name" "$mean s an iteration, $(ratio "$pictures" "$mean") pictures a second" "$mean"
  figure "$name, memory" "$(number "$found" "'%.2f GB of tensors, %.2f GB kept' % (${ours}['peak_bytes'] / 1e9, ${ours}.get('reserved_bytes', 0) / 1e9)")" \
    "$(number "$found" "${ours}['peak_bytes'] / 1e9")"
}
step_b64_graphs() { step_seconds "paper256, batch 64, graphs" 120 "${paper[@]}" --batch 64 --micro-batch 64 --graphs on; }
step_b64_plain() { step_seconds "paper256, batch 64, no graphs" 120 "${paper[@]}" --batch 64 --micro-batch 64 --graphs off; }
step_b8_graphs() { step_seconds "paper256, batch 8, graphs" 120 "${paper[@]}" --batch 8 --micro-batch 8 --graphs on; }
step_b8_plain() { step_seconds "paper256, batch 8, no graphs" 120 "${paper[@]}" --batch 8 --micro-batch 8 --graphs off; }
step_b64_ref() {
  step_seconds "paper256, batch 64, ref, no graphs" 300 "${paper[@]}" --batch 64 --micro-batch 64 --graphs off --set train.kernels=ref
}
step_dcgan() { step_seconds dcgan 120 --preset dcgan; }
step_pggan() { step_seconds pggan 120 --preset pggan; }
step_stylegan1() { step_seconds stylegan1 120 --preset stylegan1; }

# The kernels that an iteration's time goes to, by the toolkit's profiler where there is one.
step_profile() {
  command -v nsys >/dev/null || { skip_check "paper256 by kernels" "there is no nsys"; return; }
  run_limited 240 nsys profile --force-overwrite true -o "$runs/profile" --stats true "$gantrain" bench step --device cuda \
    --python "" --pairs 1 "${paper[@]}" --batch 64 --micro-batch 64 --graphs off --no-floor
  figure "paper256 by kernels" "$(grep -A 12 'cuda_gpu_kern_sum' <<<"$output" | tail -n 8)"
}

# What the program says of memory before and after, beside what the driver saw meanwhile.
memory_run() {
  local most=0 now main code=0
  rm -rf "$runs/memory"
  "$gantrain" --preset stylegan2-paper256 --device cuda --data synth:shapes --resolution 256 --nproc 1 --batch 64 --kimg 1000 \
    --resume none --set metrics.names=none --set samples.every=1000 --stop-after 40s --run-dir "$runs/memory" -v &
  main=$!
  while kill -0 "$main" 2>/dev/null; do
    now=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | sort -n | tail -n 1)
    [[ $now =~ ^[0-9]+$ ]] && ((now > most)) && most=$now
    sleep 1
  done
  wait "$main" || code=$?
  echo "the driver saw $most MiB"
  return "$code"
}
export -f memory_run
step_memory() {
  check_fails "paper256 trains for 40 s and stops" 75 "the driver saw" 200 memory_run
  figure "memory" "$(grep -i '^memory\|micro-batch\|the driver saw' <<<"$output" | tr '\n' ';')"
}

step_official_code() {
  local seconds found
  if [ -z "$official" ] || [ -z "$python" ]; then
    skip_check "the official code" "--official names no checkout, or no Python has torch"
    return
  fi
  run_limited 400 "$python" "$root/scripts/peers/stylegan2.py" --official "$official" --device cuda --resolution 256 \
    --batch 64 --channel-base 16384 --map-depth 8 --mbstd-group 8 --fp16-res 4 --warm 3 --steps 3
  found=$(answer)
  seconds=$(number "$found" 'j["iteration"]')
  figure "the official code" "${seconds:+$seconds s an iteration, with $(number "$found" 'j["operators"]')}" "$seconds"
  figure "the official code, memory" "$(number "$found" "'%.2f GB of tensors' % (j['peak_bytes'] / 1e9)")" \
    "$(number "$found" "j['peak_bytes'] / 1e9")"
}

step_ratios() {
  local graphs plain
  graphs=$(figure_value "paper256, batch 64, graphs") plain=$(figure_value "paper256, batch 64, no graphs")
  figure "sec/kimg of stylegan2-paper256" "$(ratio "$graphs" 0.064)"
  figure "graphs of no graphs, batch 64" "$(ratio "$graphs" "$plain")"
  figure "graphs of no graphs, batch 8" \
    "$(ratio "$(figure_value "paper256, batch 8, graphs")" "$(figure_value "paper256, batch 8, no graphs")")"
  of_limit "of ref without graphs" "$graphs" "$(figure_value "paper256, batch 64, ref, no graphs")" 0.5
  of_limit "of the official code" "$graphs" "$(figure_value "the official code")" 0.5
  of_limit "memory of the official code's" "$(figure_value "paper256, batch 64, no graphs, memory")" \
    "$(figure_value "the official code, memory")" 1
}
of_limit() { # of_limit NAME OURS THEIRS LIMIT
  if [ -z "$3" ]; then skip_check "$1" "there is nothing to compare with"; return; fi
  at_most "$1" "$(ratio "$2" "$3")" "$4" "$(ratio "$2" "$3")"
}

part_breaks() {
  steps refusals smoke
  gpu_steps killed memory_over stop memcheck racecheck
}

step_refusals() {
  local none=(env CUDA_VISIBLE_DEVICES=)
  check_fails "a device that is not there" 4 GPU 60 "${none[@]}" "$gantrain" --preset dcgan-tiny --device cuda --run-dir "$runs/none"
  check_fails "a benchmark on it" 4 GPU 60 "${none[@]}" "$gantrain" bench ops --device cuda
  check_fails "an unknown preset" 2 "did you mean|presets list" 30 "$gantrain" --preset dcgan-tinny
}
step_smoke() { check "a smoke run on the CPU" 120 "$gantrain" --smoke --out "$runs/smoke"; }

# 256 pictures of 1024 pixels are 0.8 GB on the host, and on a device more than any has.
step_memory_over() {
  check_fails "out of memory" 7 memory 240 "$gantrain" --preset stylegan2-paper1024 --device cuda --data synth:shapes \
    --resolution 1024 --nproc 1 --batch 256 --micro-batch 256 --kimg 5 --resume none --set metrics.names=none \
    --set samples.rows=1 --set samples.columns=1 --set data.workers=1 --run-dir "$runs/over"
}
step_killed() { check_fails "a killed rank" 6 "rank 0" 180 killed_rank "$runs/killed"; }
step_stop() {
  check_fails "a stop" 75 "resum|next" 180 train "$runs/stopped" stylegan2-tiny --device cuda --kimg 1000 --stop-after 20s
  check_fails "and the resume" 75 "resume  at" 180 train_on "$runs/stopped" stylegan2-tiny --device cuda --kimg 1000 --stop-after 15s
}
killed_rank() { # kill -9 of rank 0 in the middle of a run
  local folder=$1 main
  train "$folder" dcgan-tiny --device "${2:-cuda}" --kimg 100000 &
  main=$!
  for _ in $(seq 300); do
    kill -0 "$main" 2>/dev/null || break
    [ -e "$folder/errors/pids.json" ] && grep -q kimg "$folder/log.txt" 2>/dev/null && break
    sleep 0.2
  done
  kill -0 "$main" 2>/dev/null || { wait "$main"; return; }
  sleep 5
  kill -9 "$(number "$(<"$folder/errors/pids.json")" 'list(j.values())[0] if isinstance(j, dict) else j[0]')"
  wait "$main"
}
export -f killed_rank number

# Only our own kernels: all are instances of run_body. Those of cuDNN take hours, and their authors' time.
find_sanitizer() {
  local file
  for file in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
    if [ -x "$file" ]; then echo "$file"; return; fi
  done
}
sanitize() { # sanitize TOOL
  local sanitizer
  sanitizer=$(find_sanitizer)
  if [ -z "$sanitizer" ]; then skip_check "compute-sanitizer, $1" "not installed"; return; fi
  test_program "compute-sanitizer, $1" || return
  check "compute-sanitizer, $1" 240 "$sanitizer" --tool "$1" --error-exitcode 9 --kernel-regex kns=run_body \
    "$tests/test_cuda_device" "Kernel*"
}
step_memcheck() { sanitize memcheck; }
step_racecheck() { sanitize racecheck; }
