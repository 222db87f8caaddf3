#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where the CUDA side comes from, with toolkits, wheels and an index of a few bytes: what a driver alone,
# toolkits of the right and of another release, and a network that fails lead to.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
unset CUDA_HOME GANTRAIN_LIBTORCH GANTRAIN_CUDA
export GANTRAIN_CACHE_DIR=$tmp/cache
mkdir -p "$tmp/project/scripts" "$tmp/index" "$tmp/bin"
cp "$root"/scripts/setup*.sh "$tmp/project/scripts/"
sed -i "s#/usr/local/#$tmp/usr/local/#g" "$tmp/project/scripts/setup_cuda.sh" # this machine's toolkits

# The index: `make_wheel NAME VERSION "LIBRARIES" MEMBER...` adds a wheel to it and to the table.
python=$(command -v python3)
make_wheel() {
  local file="$tmp/index/${1//-/_}-$2-py3-none-any.whl"
  "$python" - "$file" "${1//-/_}-$2.dist-info/METADATA" "${@:4}" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    for member in sys.argv[2:]:
        entry = zipfile.ZipInfo(member)
        entry.external_attr = (0o755 if "/bin/" in member else 0o644) << 16
        wheel.writestr(entry, '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n')
END
  local sum hashes
  sum=$(sha256sum "$file" | cut -d' ' -f1)
  hashes="$sum another"
  [ "$(uname -m)" = x86_64 ] || hashes="another $sum"
  echo "$1 $2 $hashes $3" >>"$tmp/project/scripts/wheels.txt"
}
echo "# the table" >"$tmp/project/scripts/wheels.txt"
make_wheel nvidia-cublas 13.1.0.3 "libcublas.so.13 libcublasLt.so.13" nvidia/cu13/{lib/libcublas.so.13,lib/libcublasLt.so.13,include/cublas.h}
make_wheel nvidia-cudnn-cu13 9.19.0.56 "libcudnn.so.9 libcudnn_ops.so.9" nvidia/cudnn/{lib/libcudnn.so.9,lib/libcudnn_ops.so.9,include/cudnn.h}
make_wheel nvidia-nccl-cu13 2.28.9 libnccl.so.2 nvidia/nccl/{lib/libnccl.so.2,include/nccl.h}
make_wheel nvidia-cuda-nvcc 13.0.88 "" nvidia/cu13/{bin/nvcc,include/cuda_runtime.h}
program "$tmp/bin/python3" <<END
[ "\$2" != pip ] && exec "$python" "\$@"
[ "\$3" = --version ] && exit
[ ! -e "$tmp/offline" ] || { echo "no network" >&2; exit 1; }
while [ "\$1" != --dest ]; do shift; done
name=\${3%%==*}
echo "\$name" >>"$tmp/fetched"
cp "$tmp/index/\${name//-/_}-"*.whl "\$2"
END
PATH=$tmp/bin:/usr/bin:/bin

libtorch=$GANTRAIN_CACHE_DIR/libtorch-2.11.0/lib
fresh() { # an unpacked LibTorch whose CUDA side needs the driver's library and one more
  rm -rf "$GANTRAIN_CACHE_DIR" "$tmp/fetched" "${tmp:?}/usr"
  mkdir -p "$libtorch" "$tmp/stub"
  : >"$libtorch/libtorch_cpu.so"
  for library in libonly_in_this_test.so.1 libcuda.so.1; do
    g++ -shared -fPIC -x c++ /dev/null -o "$tmp/stub/$library" -Wl,-soname,$library
  done
  g++ -shared -fPIC -x c++ /dev/null -x none -o "$libtorch/libtorch_cuda.so" \
    -Wl,--no-as-needed,-rpath,'$ORIGIN' "$tmp"/stub/lib{only_in_this_test,cuda}.so.1
  cp "$tmp/stub/libonly_in_this_test.so.1" "$libtorch/"
  : >"$tmp/fetched"
}
scripts() { bash -c '. "$1/scripts/setup.sh"; eval "$2"' _ "$tmp/project" "$1"; }
toolkit() { # toolkit FOLDER RELEASE
  program "$1/bin/nvcc" <<<"echo 'Cuda compilation tools, release $2, V$2.88'"
  mkdir -p "$1/include" "$1/lib64"
  : >"$1/include/cuda_runtime.h"
}
said() { tail -n 1 "$tmp/said"; }

# --- a driver alone
fresh
touch "$tmp/offline"
code=0; scripts setup_cuda 2>"$tmp/said" || code=$?
expect "no network: exit code" 4 "$code"
expect "no network: last line" "gantrain: nvidia-cublas 13.1.0.3 could not be downloaded (pip's reason is above)" "$(said)"
rm "$tmp/offline"
code=0; scripts 'with_lock place_cuda compile' 2>"$tmp/said" || code=$?
expect "a driver alone" 0 "$code"
tree=$GANTRAIN_CACHE_DIR/cuda-13.0
expect "everything comes from wheels" "nvidia-cublas nvidia-cudnn-cu13 nvidia-nccl-cu13 nvidia-cuda-nvcc" "$(xargs <"$tmp/fetched")"
expect "cuDNN's libraries lie in one folder, links followed" "$tree/lib $tree/lib" \
  "$(for l in libcudnn.so.9 libcudnn_ops.so.9; do dirname "$(realpath "$libtorch/$l")"; done | xargs)"
expect "the compiler can be called" "13.0" "$(scripts "nvcc_release $tree/bin/nvcc")"
expect "CMake is told of it" "-DCUDAToolkit_ROOT=$tree -DGANTRAIN_NCCL_INCLUDE=$tree/include" "$(scripts cuda_options | xargs)"
expect "shaped like a toolkit" yes "$([ -e "$tree/lib64/libcudnn.so.9" ] && compgen -G "$tree/targets/*-linux/include/cudnn.h" >/dev/null && echo yes)"
touch "$tmp/offline"
expect "a second time: nothing to fetch" "" "$(scripts 'with_lock place_cuda compile' 2>&1)"
rm "$tree/dist-info/nvidia_cudnn_cu13-9.19.0.56.dist-info" -r
expect "an unpacking that was cut off is done again, from the wheel that is kept" "gantrain: unpacking nvidia-cudnn-cu13 9.19.0.56 into $tree" \
  "$(scripts 'with_lock place_cuda compile' 2>&1)"
rm "$tmp/offline"

# --- a toolkit of another release
fresh
toolkit "$tmp/usr/local/cuda" 12.4
scripts 'with_lock place_cuda compile' 2>"$tmp/said"
expect "release 12.4 is named and not used" \
  "gantrain: the CUDA Toolkit in $tmp/usr/local/cuda, of release 12.4, is not used: LibTorch 2.11.0 is made for 13.0, which comes from wheels" "$(head -n 1 "$tmp/said")"
expect "what compiles then" "$tree" "$(scripts cuda_compiler_dir)"

# --- a toolkit of the right release, with a cuBLAS of this version, and with an older one
fresh
toolkit "$tmp/usr/local/cuda-13.0" 13.0
touch "$tmp"/usr/local/cuda-13.0/lib64/libcublas{,Lt}.so.13
printf '{\n "libcublas" : {\n "name" : "CUDA cuBLAS",\n "version" : "13.1.0.3"\n }\n}\n' >"$tmp/usr/local/cuda-13.0/version.json"
scripts setup_cuda 2>"$tmp/said"
expect "the toolkit's own libraries are linked, the others fetched" "nvidia-cudnn-cu13 nvidia-nccl-cu13" "$(xargs <"$tmp/fetched")"
expect "cuBLAS is the toolkit's" "$tmp/usr/local/cuda-13.0/lib64/libcublas.so.13" "$(readlink "$libtorch/libcublas.so.13")"
expect "the toolkit compiles, with the wheel's nccl.h" \
  "-DCUDAToolkit_ROOT=$tmp/usr/local/cuda-13.0 -DGANTRAIN_NCCL_INCLUDE=$tree/include" "$(scripts cuda_options | xargs)"
sed -i s/13.1.0.3/13.0.2.14/ "$tmp/usr/local/cuda-13.0/version.json"
scripts 'with_lock place_cuda compile' 2>"$tmp/said"
expect "an older cuBLAS is replaced" "$tree/lib64/libcublas.so.13" "$(readlink "$libtorch/libcublas.so.13")"

# --- a cache that others may only read serves if all is there
chmod 755 "$tmp"
reader() { as_reader bash -c '. "$1/scripts/setup.sh"; setup_cuda' _ "$tmp/project" 2>&1; }
may_not_write "$GANTRAIN_CACHE_DIR"
expect "all is in place" "" "$(reader)"
chmod -R u+w "$GANTRAIN_CACHE_DIR"
rm -r "$tree/dist-info/nvidia_cudnn_cu13-9.19.0.56.dist-info"
may_not_write "$GANTRAIN_CACHE_DIR"
said=$(reader) && code=0 || code=$?
expect "a wheel is missing" "8 gantrain: $GANTRAIN_CACHE_DIR cannot be written; GANTRAIN_CACHE_DIR names another place" "$code $said"
chmod -R u+w "$GANTRAIN_CACHE_DIR"

# --- a library that no wheel brings ends it; the driver's own may be missing
fresh
expect "the driver's library is not asked for" "" "$(scripts 'missing_cuda_libraries || true')"
rm "$libtorch/libonly_in_this_test.so.1"
code=0; scripts setup_cuda_libraries 2>"$tmp/said" || code=$?
expect "a missing library: exit code" 4 "$code"
expect "a missing library is named" "gantrain: LibTorch's CUDA side in $libtorch needs libraries that are not there: libonly_in_this_test.so.1" "$(said)"

# --- whether there is a GPU
gpu() { # gpu FILE...: the answer where /dev and /usr have these
  rm -rf "$tmp/machine"
  for file; do mkdir -p "$(dirname "$tmp/machine/$file")" && : >"$tmp/machine/$file"; done
  scripts "has_gpu_below $tmp/machine && echo yes || echo no"
}
expect "no device file" no "$(gpu dev/null)"
expect "tools without a GPU" no "$(gpu dev/nvidia-uvm)"
expect "a GPU" yes "$(gpu dev/nvidia3)"
expect "a container that shows the control file alone" yes "$(gpu dev/nvidiactl)"
expect "Windows' GPU" yes "$(gpu dev/dxg usr/lib/wsl/lib/libcuda.so.1)"
expect "Windows' GPU in a container" "yes yes" \
  "$(gpu dev/dxg usr/lib/x86_64-linux-gnu/libcuda.so.1) $(gpu dev/dxg usr/lib/wsl/drivers/nv.inf/libcuda.so.1.1)"
expect "Windows' GPU of another maker" no "$(gpu dev/dxg)"
wanted() { scripts "has_gpu() { $1; }; cuda_wanted AUTO"; }
expect "AUTO with a GPU" ON "$(wanted true)"
expect "AUTO without one" AUTO "$(wanted false)"
expect "OFF stays OFF" OFF "$(GANTRAIN_CUDA=OFF wanted true)"
