#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that installs: Debian packages, LibTorch, the Python of the tests. Sourced by the other
# scripts for its functions; by itself it prepares the machine:  scripts/setup.sh [build|test]
#
#   GANTRAIN_CACHE_DIR   where LibTorch, wheels and the Python venv stand, for all checkouts
#   GANTRAIN_LIBTORCH    an unpacked LibTorch 2.11.0 to use instead of fetching one
#   GANTRAIN_NO_CLUSTER  set: the tests install no Slurm and no Open MPI and skip what needs them
set -euo pipefail

# shellcheck disable=SC2034 # for those who source this
GANTRAIN_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
GANTRAIN_CACHE_DIR=${GANTRAIN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/gantrain}
TORCH_VERSION=2.11.0
TORCH_SHA256=7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
LIBTORCH=${GANTRAIN_LIBTORCH:-$GANTRAIN_CACHE_DIR/libtorch-$TORCH_VERSION}

BUILD_PACKAGES=(g++ cmake ninja-build ccache mold pkg-config libcli11-dev nlohmann-json3-dev
  libfmt-dev catch2 libpng-dev libturbojpeg0-dev libwebp-dev libzip-dev zlib1g-dev libxxhash-dev
  libgloo-dev)
TEST_PACKAGES=(clang-format clang-tidy shellcheck)
SLURM_PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
MPI_PACKAGES=(openmpi-bin)

# The wheels that hold what LibTorch's libraries need: soname -> name, version, sha256. The first
# two serve libtorch_cpu.so, the others libtorch_cuda.so. The versions are those of torch's metadata.
declare -A WHEEL_OF=(
  [libcudart.so.13]="nvidia-cuda-runtime 13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"
  [libcupti.so.13]="nvidia-cuda-cupti 13.0.85 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"
  [libcufile.so.0]="nvidia-cufile 1.15.1.6 08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44"
  [libcusparseLt.so.0]="nvidia-cusparselt-cu13 0.8.0 25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd"
  [libnvshmem_host.so.3]="nvidia-nvshmem-cu13 3.4.5 290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80"
  [libcudnn.so.9]="nvidia-cudnn-cu13 9.19.0.56 d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf"
  [libnccl.so.2]="nvidia-nccl-cu13 2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42"
)

say() { printf 'gantrain: %s\n' "$*" >&2; }
die() { # die EXIT_CODE MESSAGE
  say "${@:2}"
  exit "$1"
}

has_gpu() { compgen -G '/dev/nvidia[0-9]*' >/dev/null || { [ -e /dev/dxg ] && nvidia-smi -L >/dev/null 2>&1; }; }
toolkit_dir() { # prints the CUDA Toolkit's folder; fails where there is none with a compiler
  local dir nvcc
  nvcc=$(command -v nvcc || true)
  for dir in "${CUDA_HOME:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda; do
    [ -n "$dir" ] && [ -x "$dir/bin/nvcc" ] && echo "$dir" && return
  done
  return 1
}

# with_lock COMMAND...: one at a time over all checkouts that share the cache.
with_lock() {
  mkdir -p "$GANTRAIN_CACHE_DIR" || die 8 "$GANTRAIN_CACHE_DIR cannot be written; GANTRAIN_CACHE_DIR names another place"
  (
    flock 9
    "$@"
  ) 9>"$GANTRAIN_CACHE_DIR/.lock"
}

# need_packages PACKAGE...: installs what dpkg does not have. Elsewhere than on Debian CMake will say
# what it misses.
need_packages() {
  command -v dpkg-query >/dev/null || return 0
  local package have missing=() as_root=()
  have=$'\n'$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null || true)$'\n'
  for package; do
    [[ $have == *$'\n'"installed $package"$'\n'* ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [ -t 0 ] && command -v sudo >/dev/null; then
      as_root=(sudo)
    else
      die 4 "Debian packages are missing, and this is not root: apt-get install ${missing[*]}"
    fi
  fi
  say "installing Debian packages: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  { "${as_root[@]}" "${apt[@]}" update &&
    "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null; } </dev/null >&2 ||
    die 4 "apt-get could not install: ${missing[*]}"
}

need_pip() { python3 -m pip --version >/dev/null 2>&1 || need_packages python3-pip; }

# fetch_wheel NAME VERSION SHA256: sets `wheel` to its path in the cache, downloaded if it is not
# there. The platforms are named, so that the local Python's version does not matter.
fetch_wheel() {
  local dir=$GANTRAIN_CACHE_DIR/wheels part platform platforms=()
  for wheel in "$dir/${1//-/_}-$2-"*.whl; do
    sha256sum --status -c - <<<"$3  $wheel" 2>/dev/null && return
    rm -f "$wheel"
  done
  need_pip
  say "fetching $1 $2 into $dir"
  part=$dir/.part-$1
  rm -rf "$part"
  mkdir -p "$part"
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_25 manylinux_2_18 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${platform}_x86_64")
  done
  python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none "${platforms[@]}" \
    --dest "$part" "$1==$2" </dev/null >&2 || die 4 "$1 $2 could not be downloaded (pip's reason is above)"
  wheel=$(echo "$part"/*.whl)
  sha256sum --status -c - <<<"$3  $wheel" || die 3 "$wheel is not the file that was expected (sha256 $3)"
  mv "$wheel" "$dir/"
  rm -rf "$part"
  wheel=$dir/${wheel##*/}
}

# unpack WHEEL FOLDER STRIP GLOB...: the members that match, less STRIP leading folders; !GLOB leaves out.
unpack() {
  python3 - "$@" <<'PY'
import fnmatch, pathlib, shutil, sys, zipfile

wheel, folder, strip, *globs = sys.argv[1:]
wanted = [g for g in globs if not g.startswith("!")]
unwanted = [g[1:] for g in globs if g.startswith("!")]
with zipfile.ZipFile(wheel) as archive:
    for member in archive.infolist():
        matches = lambda globs: any(fnmatch.fnmatchcase(member.filename, g) for g in globs)
        if member.is_dir() or not matches(wanted) or matches(unwanted):
            continue
        target = pathlib.Path(folder, *member.filename.split("/")[int(strip):])
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, open(target, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        target.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
PY
}

missing_libraries() { ldd "$1" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u; }

unpack_libtorch() {
  [ -e "$LIBTORCH/lib/libtorch_cpu.so" ] && return
  local wheel library temporary
  fetch_wheel torch "$TORCH_VERSION" "$TORCH_SHA256"
  rm -rf "$GANTRAIN_CACHE_DIR"/.unpack-*
  temporary=$(mktemp -d "$GANTRAIN_CACHE_DIR/.unpack-XXXXXX")
  say "unpacking LibTorch $TORCH_VERSION into $LIBTORCH"
  unpack "$wheel" "$temporary" 1 'torch/include/*' 'torch/lib/*' 'torch/share/*'
  # Always from the wheels, so that the CPU side does not depend on a toolkit being there.
  for library in libcudart.so.13 libcupti.so.13; do
    # shellcheck disable=SC2086 # three words
    fetch_wheel ${WHEEL_OF[$library]}
    unpack "$wheel" "$temporary" 2 "*/lib/$library"
  done
  library=$(missing_libraries "$temporary/lib/libtorch_cpu.so")
  [ -z "$library" ] || die 4 "LibTorch needs libraries that this system does not have: ${library//$'\n'/ }"
  chmod 755 "$temporary"
  mv -T "$temporary" "$LIBTORCH"
}

setup_libtorch() {
  [ -e "$LIBTORCH/lib/libtorch_cpu.so" ] && return
  [ -z "${GANTRAIN_LIBTORCH:-}" ] || die 4 "GANTRAIN_LIBTORCH=$GANTRAIN_LIBTORCH has no lib/libtorch_cpu.so"
  with_lock unpack_libtorch
}

place_cuda_libraries() {
  local wheel library toolkit round
  toolkit=$(toolkit_dir) || return 0
  for round in 1 2 3; do # what is placed has needs of its own
    for library in $(missing_libraries "$LIBTORCH/lib/libtorch_cuda.so"); do
      if [ -e "$toolkit/lib64/$library" ]; then
        ln -sf "$toolkit/lib64/$library" "$LIBTORCH/lib/$library"
      elif [ -n "${WHEEL_OF[$library]:-}" ]; then
        # shellcheck disable=SC2086 # three words
        fetch_wheel ${WHEEL_OF[$library]}
        unpack "$wheel" "$LIBTORCH" 2 '*/lib/*.so*'
      elif [ "$round" = 3 ]; then
        say "libtorch_cuda.so needs $library, which neither the CUDA Toolkit in $toolkit nor a wheel has"
      fi
    done
  done
}

# What libtorch_cuda.so needs beyond the CUDA Toolkit: needed to run on a GPU, not to build for one.
setup_cuda_libraries() {
  [ -n "${GANTRAIN_LIBTORCH:-}" ] || with_lock place_cuda_libraries
}

setup_build() {
  need_packages "${BUILD_PACKAGES[@]}"
  setup_libtorch
}

# What the tests call; their Python is made by setup_python.sh.
setup_test() {
  need_packages "${TEST_PACKAGES[@]}"
  if [ "$(id -u)" = 0 ] && [ -z "${GANTRAIN_NO_CLUSTER:-}" ]; then
    (need_packages "${SLURM_PACKAGES[@]}") || say "without Slurm: its tests are skipped"
    (need_packages "${MPI_PACKAGES[@]}") || say "without Open MPI: its tests are skipped"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup_build
  if [ "${1:-build}" = test ]; then setup_test; fi
fi
