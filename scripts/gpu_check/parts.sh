# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# The parts of gpu_check.sh, in order. Sourced; uses report.sh. Settings: gantrain, tests, out,
# official, python, gpus, why_no_gpu.

tiny="dcgan-tiny pggan-tiny stylegan1-tiny stylegan2-tiny stylegan3-tiny r3gan-tiny"

# A short run: train FOLDER PRESET FLAGS...; 20 iterations of 8 pictures, nothing else.
train() {
  "$gantrain" --preset "$2" --run-dir "$1" --batch 8 --kimg 0.16 --resume none --threads 2 \
    --nproc 1 --set metrics.names=none --set samples.every=1000 "${@:3}"
}
no_gpu() { # no_gpu NAME...: skips the checks where there is no GPU
  ((gpus == 0)) || return 1
  local name
  for name; do skip_check "$name" "$why_no_gpu"; done
}

no_test_program() { # no_test_program NAME...: skips the checks where the tests were not built
  [ ! -x "$tests/test_cuda_device" ] || return 1
  local name
  for name; do skip_check "$name" "$tests has no test_cuda_device: scripts/build.sh release test_cuda_device"; done
}

part_machine() {
  section=machine
  check "gantrain --version" 10 "$gantrain" --version
  check "gantrain doctor" 60 "$gantrain" doctor
  printf '%s\n' "$output" >"$out/doctor.txt"
  check "the program's libraries are found" 30 libraries_found
  no_gpu "copy bandwidth" && return
  run_limited 120 "$gantrain" bench ops --device cuda --rounds 3 --json
  ops=$(last_line)
  figure "copy bandwidth" "$(number "$ops" '"%.0f GB/s, read and written" % (j["copy_speed"]["median"] / 1e9)')"
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

# What cannot be found, but for the driver's own libraries, which are there only with a GPU.
libraries_found() {
  local folder library missing found=0
  folder=$(dirname "$(readlink -f "$gantrain")")
  for library in "$folder"/libgantrain_*.so "$folder"/../lib/libgantrain_*.so; do
    [ -e "$library" ] || continue
    found=$((found + 1))
    missing=$(ldd "$library" | grep 'not found' | grep -v 'libcuda\.so\|libnvidia-ml' || true)
    [ -z "$missing" ] || { echo "$library: $missing"; return 1; }
  done
  ((found > 0)) || { echo "there are no libraries beside $gantrain"; return 1; }
}

part_same_as_cpu() {
  section=numbers
  local preset device
  no_gpu "the same pictures as on the CPU" "20 iterations as on the CPU" && return
  for preset in $tiny; do
    for device in cpu cuda; do
      check "$preset: 20 iterations, $device" 120 train "$out/$preset-$device" "$preset" --device $device --seed 3 || continue 2
    done
    check "$preset: weights as on the CPU" 60 compare_models "$out/$preset-cpu" "$out/$preset-cuda" 2e-2
    for device in cpu cuda; do
      check "$preset: generate, $device" 60 "$gantrain" generate --model "$out/$preset-cpu" --seeds 0-15 --format npy \
        --device $device --outdir "$out/pictures-$preset-$device"
    done
    check "$preset: the same pictures" 30 compare_pictures "$out/pictures-$preset-cpu" "$out/pictures-$preset-cuda" 1e-3
  done
}
compare_pictures() { # two folders of npy, the largest difference allowed
  python3 - "$@" <<'PY'
import glob, os, struct, sys, ast, array
def load(path):
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    assert ast.literal_eval(data[10:10 + size].decode())["descr"] == "<f4", path
    numbers = array.array("f"); numbers.frombytes(data[10 + size:])
    return numbers
a, b, allowed = sys.argv[1], sys.argv[2], float(sys.argv[3])
names = sorted(os.path.basename(p) for p in glob.glob(a + "/*.npy"))
assert names and names == sorted(os.path.basename(p) for p in glob.glob(b + "/*.npy")), "other files"
worst = max(max(abs(x - y) for x, y in zip(load(f"{a}/{n}"), load(f"{b}/{n}"))) for n in names)
print("largest difference %.2g" % worst)
sys.exit(not worst <= allowed)
PY
}
compare_models() { # two runs, the largest difference allowed, relative to each tensor's largest number
  python3 - "$@" <<'PY'
import glob, json, struct, sys, array
def load(run):
    data = open(sorted(glob.glob(run + "/model-*.safetensors"))[-1], "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors[name] = array.array("f"); tensors[name].frombytes(data[8 + size + begin:8 + size + end])
    return tensors
a, b, allowed = load(sys.argv[1]), load(sys.argv[2]), float(sys.argv[3])
assert a and a.keys() == b.keys(), "other tensors"
worst, name = max((max(abs(x - y) for x, y in zip(a[n], b[n])) / max(1e-3, max(map(abs, a[n]))), n) for n in a if len(a[n]))
print("largest relative difference %.2g, in %s" % (worst, name))
sys.exit(not worst <= allowed)
PY
}

part_ranks() {
  section=ranks
  no_gpu "a group of one rank over NCCL" "ranks on all GPUs" && return
  no_test_program "a group of one rank over NCCL" ||
    check "a group of one rank over NCCL" 120 "$tests/test_cuda_device" "Nccl*"
  if ((gpus < 2)); then
    skip_check "ranks on all GPUs" "one GPU"
    skip_check "two ranks are two accumulated halves" "one GPU"
    return
  fi
  check "ranks on all GPUs ($gpus)" 180 train "$out/ranks" dcgan-tiny --device cuda --nproc "$gpus" --batch $((8 * gpus))
  check "two ranks" 120 train "$out/two" stylegan2-tiny --device cuda --nproc 2 --deterministic
  check "one rank, two halves" 120 train "$out/halves" stylegan2-tiny --device cuda --nproc 1 --accumulate 2 --deterministic
  check "two ranks are two accumulated halves" 60 compare_models "$out/two" "$out/halves" 1e-6
}

part_kernels() {
  section=kernels
  no_gpu "kernels against composed operators" "compute-sanitizer" && return
  no_test_program "kernels against composed operators" "compute-sanitizer" && return
  check "kernels against composed operators" 400 "$tests/test_cuda_device" "~Nccl*"
  local tool
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
      check "compute-sanitizer, $tool" 300 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$tests/test_cuda_device" "Kernel*"
    else
      skip_check "compute-sanitizer, $tool" "not installed"
    fi
  done
}

part_waits() {
  section=waits
  no_gpu "no iteration waits for the device" && return
  local preset
  for preset in $tiny; do
    check "$preset: no iteration waits" 120 train "$out/waits-$preset" "$preset" --device cuda --set train.sync_debug=on
  done
}

# The least share of the copy bandwidth that a fused operator's forward pass has.
slowest_forward='min(o["of_copy_speed"]["median"] for o in j["ops"] if o["name"].endswith(" forward"))'

part_operators() {
  section=operators
  no_gpu "operators at 80 % of the copy bandwidth" && return
  local type layout shares='"; ".join("%s %.0f %%" % (o["name"], 100 * o["of_copy_speed"]["median"]) for o in j["ops"]'
  for type in float32 float16; do
    for layout in contiguous channels-last; do
      run_limited 150 "$gantrain" bench ops --device cuda --dtype $type --layout $layout --batch 32 --channels 128 \
        --pixels 128 --json
      figure "$type, $layout" "$(number "$(last_line)" "$shares if \"backward\" not in o[\"name\"])")"
      figure "$type, $layout, with backward" "$(number "$(last_line)" "$shares if \"backward\" in o[\"name\"])")"
      figure "$type, $layout, slowest three" "$(number "$(last_line)" \
        '", ".join(o["name"] for o in sorted(j["ops"], key=lambda o: o["of_copy_speed"]["median"])[:3])')"
      at_most "$type, $layout: 80 % of it, forward" "$(number "$(last_line)" "1 - $slowest_forward")" \
        0.2 "$(number "$(last_line)" "'the slowest has %.0f %%' % (100 * $slowest_forward)")"
    done
  done
}

# step_seconds NAME FLAGS...: mean seconds of an iteration, noted as a figure and kept in `mean`, with the
# memory of tensors in `peak` (GB) and the pictures of an iteration in `pictures`.
step_seconds() {
  run_limited 200 "$gantrain" bench step --device cuda --python "" --pairs 1 --json "${@:2}"
  local answer ours='j["nets"][0]["rows"][0]'
  answer=$(last_line)
  mean=$(number "$answer" "${ours}[\"median\"]")
  peak=$(number "$answer" "${ours}[\"peak_bytes\"] / 1e9")
  pictures=$(number "$answer" "${ours}[\"batch\"]")
  if [ -n "$mean" ]; then
    figure "$1" "$mean s an iteration, memory $peak GB of tensors, $(number "$answer" "${ours}[\"reserved_bytes\"] / 1e9") GB kept"
  else
    row "$1" FAIL "$spent" "exit $status: $(last_line)"
  fi
}
ratio() { [ -n "$1" ] && [ -n "$2" ] && python3 -c 'import sys; print("%.3f" % (float(sys.argv[1]) / float(sys.argv[2])))' "$1" "$2"; }

part_steps() {
  section=steps
  no_gpu "a step of stylegan2-paper256" "pictures a second" && return
  local paper=(--preset stylegan2-paper256 --resolution 256 --batch 64 --micro-batch 64 --set ada.mode=none)
  local ref plain plain_peak preset seconds
  step_seconds "paper256, batch 64: ref, no graphs" "${paper[@]}" --set train.kernels=ref --graphs off
  ref=$mean
  step_seconds "paper256, batch 64: kernels, no graphs" "${paper[@]}" --graphs off
  plain=$mean plain_peak=$peak
  step_seconds "paper256, batch 64: kernels, graphs" "${paper[@]}" --graphs on
  figure "sec/kimg of stylegan2-paper256" "$(ratio "$mean" 0.064)"
  at_most "of ref without graphs" "$(ratio "$mean" "$ref")" 0.5 "$(ratio "$mean" "$ref")"
  figure "graphs of no graphs" "$(ratio "$mean" "$plain")"
  if [ -n "$official" ] && [ -n "$python" ]; then
    run_limited 600 "$python" "$root/scripts/peers/stylegan2.py" --official "$official" --device cuda --resolution 256 \
      --batch 64 --channel-base 16384 --map-depth 8 --mbstd-group 8 --fp16-res 4 --warm 3 --steps 3
    seconds=$(number "$(last_line)" 'j["iteration"]')
    figure "the official code" "$seconds s an iteration, with $(number "$(last_line)" 'j["operators"]'), $(last_line)"
    at_most "of the official code" "$(ratio "$mean" "$seconds")" 0.5 "$(ratio "$mean" "$seconds") of $seconds s"
    at_most "peak memory of the official code's" \
      "$(ratio "$plain_peak" "$(number "$(last_line)" 'j["peak_bytes"] / 1e9')")" 1 "$plain_peak GB without graphs"
  else
    skip_check "of the official code" "--official names no checkout, or no Python has torch"
  fi
  for preset in dcgan pggan stylegan1; do
    step_seconds "$preset" --preset $preset
    figure "$preset: pictures a second" "$(ratio "$pictures" "$mean")"
  done
}

part_failures() {
  section=failures
  local none=(env CUDA_VISIBLE_DEVICES=) text='no GPU|GPU'
  check_fails "a device that is not there" 4 "$text" 30 "${none[@]}" "$gantrain" --preset dcgan-tiny --device cuda --run-dir "$out/none"
  check_fails "a benchmark on it" 4 "$text" 30 "${none[@]}" "$gantrain" bench ops --device cuda
  check_fails "an unknown preset" 2 "did you mean|presets list" 30 "$gantrain" --preset dcgan-tinny
  check "a smoke run on the CPU" 120 "$gantrain" --smoke --out "$out/smoke"
  no_gpu "out of memory" "a killed rank" "stop and resume" && return
  check_fails "out of memory" 7 "memory" 180 "$gantrain" --preset stylegan2-paper1024 --device cuda --data synth:shapes --resolution 1024 \
    --nproc 1 --batch 4096 --micro-batch 4096 --kimg 5 --set metrics.names=none --set samples.rows=1 --set samples.columns=1 \
    --run-dir "$out/memory"
  check_fails "a killed rank" 6 "rank 0" 180 killed_rank "$out/killed"
  check_fails "a stop" 75 "resum|next" 180 train "$out/stopped" stylegan2-tiny --device cuda --kimg 1000 --stop-after 20s
  check_fails "and the resume" 75 "resume  at" 180 "$gantrain" --preset stylegan2-tiny --run-dir "$out/stopped" --device cuda \
    --nproc 1 --batch 8 --threads 2 --kimg 1000 --set metrics.names=none --set samples.every=1000 --stop-after 15s
}
killed_rank() { # kill -9 of rank 0 in the middle of a run
  local folder=$1 main
  train "$folder" dcgan-tiny --device cuda --kimg 100000 &
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
