#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA side: whether there is a GPU, which toolkit compiles, where each library comes from.
# Functions alone: sourced by setup.sh, and by run.sh for the first two.
#
# A CUDA Toolkit 13.0 serves where it is: its compiler, and those of its libraries that have the very
# version of wheels.txt. All else comes from wheels into $GANTRAIN_CACHE_DIR/cuda-13.0, a folder shaped
# like a toolkit, so that a machine with a driver alone needs nothing more.
CUDA_RELEASE=13.0

# A GPU of NVIDIA's: its device file, the driver's control file (in some containers the only one), or
# one that Windows lends, whose library lies elsewhere in containers. lib/launch/where/devices.cpp has
# the same list.
has_gpu_below() { # has_gpu_below ROOT
  local library
  if compgen -G "$1/dev/nvidia[0-9]*" >/dev/null || [ -e "$1/dev/nvidiactl" ]; then return; fi
  [ -e "$1/dev/dxg" ] || return
  for library in "$1"/usr/lib/{wsl/lib,*-linux-gnu}/libcuda.so.1 "$1"/usr/lib/wsl/drivers/nv*/libcuda.so.1.1; do
    if [ -e "$library" ]; then return; fi
  done
  return 1
}
has_gpu() { has_gpu_below ''; }

# cuda_wanted DEFAULT: AUTO is ON where a GPU is, so that what is missing then ends the build instead of
# training on the CPU.
cuda_wanted() {
  local wanted=${GANTRAIN_CUDA:-$1}
  if [ "$wanted" = AUTO ] && has_gpu; then wanted=ON; fi
  echo "$wanted"
}

cuda_tree() { echo "$GANTRAIN_CACHE_DIR/cuda-$CUDA_RELEASE$MACHINE_SUFFIX"; }

nvcc_release() { { "$1" --version 2>/dev/null || true; } | sed -n 's/.* release \([0-9.]*\),.*/\1/p'; }

# Sets `toolkit`, the folder of a CUDA Toolkit of the right release, empty where there is none, and
# `other_toolkit`, what was passed over.
find_toolkit() {
  local dir nvcc release
  toolkit='' other_toolkit=''
  nvcc=$(readlink -f "$(command -v nvcc)" || true)
  for dir in "${CUDA_HOME:-}" "${nvcc%/bin/nvcc}" "/usr/local/cuda-$CUDA_RELEASE" /usr/local/cuda; do
    if [ -z "$dir" ] || [ ! -x "$dir/bin/nvcc" ] || [ ! -e "$dir/include/cuda_runtime.h" ]; then continue; fi
    release=$(nvcc_release "$dir/bin/nvcc")
    if [ "$release" = "$CUDA_RELEASE" ]; then
      toolkit=$dir
      return
    fi
    other_toolkit="$dir, of release ${release:-unknown}"
  done
}

# Prints the toolkit's folder; fails where there is none.
toolkit_dir() {
  local toolkit other_toolkit
  find_toolkit
  [ -n "$toolkit" ] && echo "$toolkit"
}

# Prints the folder that compiles: a toolkit, or what was made of the wheels. Fails where neither is.
cuda_compiler_dir() {
  local tree
  tree=$(cuda_tree)
  toolkit_dir || { [ -x "$tree/bin/nvcc" ] && echo "$tree"; }
}

# toolkit_has FOLDER NAME VERSION: whether the folder holds what that wheel holds, by the list that a
# toolkit keeps of its parts (version.json) or by the wheels' own.
toolkit_has() {
  local part=${2#nvidia-}
  [ -n "$1" ] || return
  [ -e "$1/dist-info/${2//-/_}-$3.dist-info" ] && return
  [ -e "$1/version.json" ] || return
  case $part in
    cuda-runtime) part=cuda_cudart ;;
    cuda-*) part=${part//-/_} ;;
    *) part=lib$part ;;
  esac
  tr -d '[:space:]' <"$1/version.json" | grep -q "\"$part\":{[^}]*\"version\":\"${3//./\\.}\""
}

# The rows of wheels.txt with this machine's hash alone: name, version, sha256, libraries.
cuda_wheels() {
  local column=3
  [ "$MACHINE" = x86_64 ] || column=4
  awk -v column=$column '!/^#/ { hash = $column; $3 = hash; $4 = ""; print }' "$GANTRAIN_ROOT/scripts/wheels.txt" | tr -s ' '
}

# fetch_cuda_wheel NAME: as fetch_wheel, with version and hash from wheels.txt.
fetch_cuda_wheel() {
  local name version sum
  read -r name version sum _ < <(cuda_wheels | grep "^$1 ")
  fetch_wheel "$name" "$version" "$sum"
}

# unpack_cuda_wheel NAME VERSION SHA256: into the folder that is shaped like a toolkit.
unpack_cuda_wheel() {
  local wheel tree part target=x86_64-linux
  [ "$MACHINE" = x86_64 ] || target=sbsa-linux # ARM's servers, in a toolkit's words
  tree=$(cuda_tree)
  fetch_wheel "$@"
  say "unpacking $1 $2 into $tree"
  mkdir -p "$tree/lib" "$tree/include" "$tree/targets/$target"
  for part in lib include; do ln -sfn "../../$part" "$tree/targets/$target/$part"; done
  ln -sfn lib "$tree/lib64"
  ln -sfn libcudart.so.13 "$tree/lib/libcudart.so" # what find_package(CUDAToolkit) looks for
  unpack "$wheel" "$tree" 2 'nvidia/*/bin/*' 'nvidia/*/include/*' 'nvidia/*/lib/*' 'nvidia/*/nvvm/*' \
    '!*/libnvshmem_device.*' '!nvidia/nvshmem/include/*'
  unpack "$wheel" "$tree/dist-info" 0 '*.dist-info/*' # last: tells that the rest is there
}

# Beside LibTorch's own libraries, all of one wheel from one folder: cuDNN opens its other libraries
# from the folder that it finds itself in, with or without links followed.
link_cuda_libraries() { # link_cuda_libraries FOLDER LIBRARY...
  local library
  for library in "${@:2}"; do
    [ -e "$1/$library" ] || die 3 "$1 lacks $library, though its list of parts has it"
    is_linked "$1" "$library" || ln -sfn "$1/$library" "$LIBTORCH/lib/$library"
  done
}

# Whether a wheel is asked for: its libraries by a LibTorch of ours, its headers and programs by the
# compiler where no toolkit has them (none has NCCL's).
wheel_wanted() { # wheel_wanted run|compile NAME LIBRARIES; reads `toolkit`
  if [ -n "$3" ] && [ -z "${GANTRAIN_LIBTORCH:-}" ]; then return; fi
  [ "$1" = compile ] && { [ -z "$toolkit" ] || [ "$2" = nvidia-nccl-cu13 ]; }
}

# Whether a library that a wheel or a toolkit brings lies beside LibTorch: a file of its own, or the link that
# link_cuda_libraries makes.
is_linked() { # is_linked FOLDER LIBRARY
  local there=$LIBTORCH/lib/$2
  [ -e "$there" ] && { [ ! -L "$there" ] || [ "$(readlink "$there")" = "$1/$2" ]; }
}

# Whether place_cuda has nothing to do; it takes the lock, and a cache that others may only read has none to give.
cuda_in_place() { # cuda_in_place run|compile
  local toolkit other_toolkit name version libraries library from
  find_toolkit
  while read -r name version _ libraries; do
    wheel_wanted "$1" "$name" "$libraries" || continue
    from=$toolkit
    toolkit_has "$from" "$name" "$version" || from=$(cuda_tree)
    toolkit_has "$from" "$name" "$version" || return
    [ -z "${GANTRAIN_LIBTORCH:-}" ] || continue
    for library in $libraries; do is_linked "$from/lib64" "$library" || return; done
  done < <(cuda_wheels)
}

place_cuda() { # place_cuda run|compile
  local toolkit other_toolkit name version sum libraries from tree
  tree=$(cuda_tree)
  find_toolkit
  if [ -z "$toolkit" ] && [ -n "$other_toolkit" ]; then
    say "the CUDA Toolkit in $other_toolkit, is not used: LibTorch $TORCH_VERSION is made for $CUDA_RELEASE, which comes from wheels"
  fi
  if [ -z "$toolkit" ] && [ ! -d "$tree" ]; then
    say "LibTorch's CUDA side comes from wheels, once: 2 GB to download, 5 GB on disk in $GANTRAIN_CACHE_DIR"
  fi
  while read -r name version sum libraries; do
    wheel_wanted "$1" "$name" "$libraries" || continue
    from=$toolkit
    if ! toolkit_has "$from" "$name" "$version"; then
      from=$tree
      toolkit_has "$from" "$name" "$version" || unpack_cuda_wheel "$name" "$version" "$sum"
    fi
    # shellcheck disable=SC2086 # several libraries
    [ -n "${GANTRAIN_LIBTORCH:-}" ] || link_cuda_libraries "$from/lib64" $libraries
  done < <(cuda_wheels)
}

# What the CUDA side of LibTorch still lacks. libcuda.so.1 is the driver's: loaded where a GPU is.
missing_cuda_libraries() {
  local library
  for library in torch_cuda torch_cuda_linalg caffe2_nvrtc; do
    missing_libraries "$LIBTORCH/lib/lib$library.so"
  done | grep -v '^libcuda\.so\.1$' | sort -u
}

# All that LibTorch's CUDA side needs to be loaded. A LibTorch of the user's own is left as it is.
setup_cuda_libraries() {
  local missing
  cuda_in_place run || with_lock place_cuda run
  missing=$(missing_cuda_libraries || true)
  [ -z "$missing" ] || die 4 "LibTorch's CUDA side in $LIBTORCH/lib needs libraries that are not there: ${missing//$'\n'/ }"
}

# The same, and what compiles the CUDA library.
setup_cuda() {
  cuda_in_place compile || with_lock place_cuda compile
  setup_cuda_libraries
}

# Prints, a line each, what tells CMake of it; nothing where nothing compiles.
cuda_options() {
  local dir headers
  dir=$(cuda_compiler_dir) || return 0
  headers=$dir
  [ -e "$dir/include/nccl.h" ] || headers=$(cuda_tree)
  printf '%s\n' "-DCUDAToolkit_ROOT=$dir" "-DGANTRAIN_NCCL_INCLUDE=$headers/include"
}
