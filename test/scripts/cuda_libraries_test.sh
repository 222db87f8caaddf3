#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA side is complete: wheels.txt against torch's own metadata; then, as root, a machine without a
# toolkit, on which all of it resolves, and loads without a GPU. Nothing is downloaded but the list of
# cuda-toolkit 13.0.2's parts (2 kB).
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
build=$(dirname "${1:-$root/build/gantrain}")
unset GANTRAIN_CUDA
. "$root/scripts/setup.sh"
[ -z "${GANTRAIN_LIBTORCH:-}" ] || skip "GANTRAIN_LIBTORCH is set: what completes it is its owner's"
torch=$(compgen -G "$GANTRAIN_CACHE_DIR/wheels/torch-$TORCH_VERSION-*.whl") || skip "no cached wheel of torch"

# --- the table
(with_lock fetch_wheel cuda-toolkit 13.0.2 b198824cf2f54003f50d64ada3a0f184b42ca0846c1c94192fa269ecd97a66eb) ||
  skip "the metadata of cuda-toolkit 13.0.2 is not in the cache and could not be fetched"
python3 - "$torch" "$GANTRAIN_CACHE_DIR"/wheels/cuda_toolkit-13.0.2-*.whl <<'END' | sort >"$tmp/wanted"
import re, sys, zipfile
def requires(path):
    with zipfile.ZipFile(path) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        lines = wheel.read(name).decode().splitlines()
    return [l.split(": ", 1)[1] for l in lines if l.startswith("Requires-Dist: ")]
torch, toolkit = map(requires, sys.argv[1:])
parts = next(r for r in torch if r.startswith("cuda-toolkit["))
assert "==13.0.2" in parts, parts
parts = parts[parts.index("[") + 1:parts.index("]")].split(",")
for required in torch:
    if match := re.match(r"(nvidia-[\w-]+)==([\d.]+);", required):
        print(*match.groups())
# What torch asks for, and what compiling takes.
for extra in parts + ["nvcc", "nvvm", "crt", "cccl", "profiler"]:
    found = {re.match(r"([\w-]+)==([\d.]+)\.\*;", r).groups() for r in toolkit if f"extra == '{extra}'" in r}
    assert found, extra
    for pair in found:
        print(*pair)
END
expect "wheels.txt holds what torch's metadata names, no more" "$(cat "$tmp/wanted")" "$(cuda_wheels | cut -d' ' -f1,2 | sort)"

# --- a machine without a toolkit
[ "$(id -u)" = 0 ] || skip "the table was compared; hiding the CUDA Toolkit takes root"
unshare -m true 2>/dev/null || skip "the table was compared; this container allows no mount namespace"
[ -e "$LIBTORCH/lib/libtorch_cuda.so" ] || skip "the table was compared; LibTorch has no CUDA side here"
tree=$(cuda_tree)
mode=wheels
while read -r name version _; do
  toolkit_has "$tree" "$name" "$version" || mode=toolkit
done < <(cuda_wheels)
find_toolkit
# A LibTorch of links to the files that its own wheel brought, in a cache of the test's own.
libtorch=$tmp/cache/libtorch-$TORCH_VERSION/lib
mkdir -p "$libtorch" "$tmp/empty" "$tmp/toolkit"
for library in libtorch{_cpu,_cuda,_cuda_linalg,_nvshmem}.so libc10{,_cuda}.so libcaffe2_nvrtc.so libgomp.so.1 lib{cudart,cupti}.so.13; do
  ln -s "$LIBTORCH/lib/$library" "$libtorch/"
done
ln -s "$GANTRAIN_CACHE_DIR/wheels" "$tmp/cache/wheels"
python=$(command -v python3)
program "$tmp/bin/python3" <<<"[ \"\$2\" != pip ] && exec '$python' \"\$@\"; [ \"\$3\" = --version ] || { echo 'not in the cache' >&2; exit 1; }"
if [ "$mode" = wheels ]; then
  ln -s "$tree" "$tmp/cache/cuda-13.0"
elif [ -z "$toolkit" ]; then
  skip "the table was compared; neither the wheels are in the cache (GANTRAIN_CUDA=ON scripts/build.sh release fetches them) nor a CUDA Toolkit 13.0 is here"
fi

# Runs in a mount namespace of its own, where the toolkits are gone; in mode `toolkit` one of them
# stands elsewhere, for what the cached wheels lack.
cat >"$tmp/inside.sh" <<'END'
set -euo pipefail
tmp=$1 mode=$2 toolkit=$3 scripts=$4
unset CUDA_HOME LD_LIBRARY_PATH LIBRARY_PATH
if [ "$mode" = toolkit ]; then
  mount --bind "$toolkit" "$tmp/toolkit"
  export CUDA_HOME=$tmp/toolkit
fi
for folder in /usr/local/cuda*; do
  [ ! -d "$folder" ] || [ -L "$folder" ] || mount --bind "$tmp/empty" "$folder"
done
export GANTRAIN_CACHE_DIR=$tmp/cache PATH=$tmp/bin:/usr/sbin:/usr/bin:/sbin:/bin
. "$scripts/setup.sh"
setup_cuda_libraries
END
said=$(unshare -m bash "$tmp/inside.sh" "$tmp" "$mode" "$toolkit" "$root/scripts" 2>&1) || {
  grep -q 'could not be downloaded' <<<"$said" ||
    expect "the CUDA side is set up" "" "$said"
  skip "the table was compared; the cache lacks wheels (GANTRAIN_CUDA=ON scripts/build.sh release fetches them)"
}

cat >>"$tmp/inside.sh" <<'END'
cd "$LIBTORCH/lib"
mapfile -t libraries < <(cuda_wheels | cut -d' ' -s -f4- | tr ' ' '\n' | grep .)
for library in libtorch_cuda.so libtorch_cuda_linalg.so libcaffe2_nvrtc.so "${libraries[@]}"; do
  LD_LIBRARY_PATH=$PWD ldd "./$library" | sed -n 's/^[[:space:]]*\([^ ]*\) => \([^(]*\).*/\1 \2/p'
done | sort -u >"$tmp/resolved"
for library in libcudnn*.so.*; do dirname "$(realpath "$library")"; done | sort -u >"$tmp/cudnn_folders"
python3 "$tmp/load.py" "$PWD" "${@:5}"
END
cat >"$tmp/load.py" <<'END'
import ctypes, os, sys
load = lambda name: ctypes.CDLL(name, os.RTLD_NOW | os.RTLD_GLOBAL)
folder, *ours = sys.argv[1:]
for library in ours:  # every symbol that it needs is there, without the trainer library
    load(library)
load(folder + "/libtorch_cuda.so")
load(folder + "/libtorch_cuda_linalg.so")
cudnn = load("libcudnn.so.9")
print("cuDNN", cudnn.cudnnGetVersion())
# The shim opens each of its libraries and compares versions; it needs no GPU for that.
for part in "Ops", "Cnn", "Adv", "Graph":
    assert getattr(cudnn, f"cudnn{part}VersionCheck")() == 0, part
# NVRTC opens its table of built-in functions, which ours have loaded.
nvrtc = load(folder + "/libnvrtc.so.13")
program = ctypes.c_void_p()
source = b"__global__ void f(float* x) { x[0] = __sinf(x[1]); }"
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, None, 0, None, None) == 0
compiled = nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"-arch=sm_90"))
print("NVRTC", compiled if ours else "not asked")
END
# Gantrain's own library as it is installed: above the folder of the others, and pointing there.
ours=()
compiled="not asked"
if [ -e "$build/libgantrain_cuda.so" ]; then
  ours=("$tmp/lib/libgantrain_cuda.so") compiled=0
  mkdir "$tmp/lib"
  ln -s "$libtorch" "$tmp/lib/gantrain"
  cp "$build/libgantrain_cuda.so" "$tmp/lib/"
  runpath=$(readelf -d "${ours[0]}" | sed -n 's/.*RUNPATH.*\[\(.*\)\]/\1/p')
  printf 'file(RPATH_CHANGE FILE "%s" OLD_RPATH "%s" NEW_RPATH "$ORIGIN/gantrain")\n' "${ours[0]}" "$runpath" >"$tmp/runpath.cmake"
  cmake -P "$tmp/runpath.cmake"
fi
said=$(unshare -m bash "$tmp/inside.sh" "$tmp" "$mode" "$toolkit" "$root/scripts" "${ours[@]}")
expect "all loads without a GPU, and compiles" "cuDNN 91900 NVRTC $compiled" "$(xargs <<<"$said")"
expect "nothing is missing but the driver's libraries" "" \
  "$(grep 'not found' "$tmp/resolved" | grep -v -e '^libcuda\.so\.1 ' -e '^libnvidia-ml\.so\.1 ' || true)"
expect "nothing comes from elsewhere than LibTorch's folder and the system" "" \
  "$(grep -v 'not found' "$tmp/resolved" | grep -v -e " $tmp/" -e ' \./' -e ' /lib/' -e ' /lib64/' -e ' /usr/lib/' || true)"
expect "cuDNN's libraries lie in one folder" 1 "$(wc -l <"$tmp/cudnn_folders")"
if ((${#ours[@]})); then
  expect "the CUDA library needs no function of gantrain's other libraries" "" \
    "$(nm -D --undefined-only "${ours[0]}" | grep ' _ZNK\?8gantrain' || true)"
fi
echo "proved with the libraries of ${mode/wheels/the wheels alone}, ${#ours[@]} library of gantrain's loaded"
