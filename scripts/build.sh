#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing and builds:  scripts/build.sh release|debug|asan|ubsan|tsan|fuzz [target...]
# into build/, build-debug/, build-asan/, build-ubsan/, build-tsan/, build-fuzz/. A folder that was
# configured by hand is built as it is; one that came along with a copied checkout is configured anew.
# fuzz builds the fuzz targets alone, with clang and libFuzzer; then
#   ctest --test-dir build-fuzz -L fuzz
# runs each for a minute, and scripts/fuzz_nightly.sh each for an hour.
#   GANTRAIN_CUDA=AUTO|ON|OFF  the CUDA library. AUTO: ON where a GPU is, else built where a CUDA Toolkit
#                              is. ON fetches all that it takes, and ends where something is not to be
#                              had. KEEP: as the folder has it, OFF in a new one (what run.sh asks for
#                              without a GPU).
#   GANTRAIN_UNITY=ON|OFF      sources in batches, which builds everything fastest (ON in a new folder), or one by one,
#                              which builds a changed source fastest; a folder keeps its way until another is named.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

# GB of memory that this machine has free, or that the limit of this container allows.
gigabytes() {
  local free limit
  free=$(awk '/^MemAvailable/ {print int($2 / 1e6)}' /proc/meminfo)
  limit=$({ cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || true; } | head -n 1)
  if [[ $limit =~ ^[0-9]{1,15}$ ]] && ((limit / 1000000000 < free)); then free=$((limit / 1000000000)); fi
  echo "$free"
}

jobs() { # a processor each, as long as each has 2 GB: LibTorch's headers are that large
  local memory
  memory=$(($(gigabytes) / 2))
  echo $((memory < 1 ? 1 : memory < $(nproc) ? memory : $(nproc)))
}

# Prints the checkout whose sources a configured folder builds, by whatever path it was reached then.
sources_of() { sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt" 2>/dev/null || true; }

# A folder that came along with a copy of the checkout would build the original's sources.
is_ours() { [ "$(sources_of "$1")" -ef "$GANTRAIN_ROOT" ]; }

configure() { # configure FOLDER CMAKE_OPTION...
  local folder=$1 options="${*:2}"
  if [ -e "$folder/build.ninja" ] && [ "$(cat "$folder/.options" 2>/dev/null)" = "$options" ] && is_ours "$folder"; then return; fi
  mkdir -p "$folder"
  rm -rf "$folder/build.ninja" "$folder/CMakeCache.txt" "$folder/CMakeFiles" # --fresh came with CMake 3.24
  echo "$options" >"$folder/.options"
  cmake -S "$GANTRAIN_ROOT" -B "$folder" -G Ninja "${@:2}"
}

kept() { # kept FOLDER NAME: the value of an option with which the folder was configured
  sed -n "s/.*-D$2=\([A-Z]*\).*/\1/p" "$1/.options" 2>/dev/null || true
}

has_cuda_target() { # has_cuda_target FOLDER
  local known
  # Not through a pipe: grep -q would end it early.
  known=$(cmake --build "$1" --target help) || { printf '%s\n' "$known" >&2; exit 1; }
  grep -q '^gantrain_cuda:' <<<"$known"
}

build() { # build FOLDER CUDA EXTRA_OPTIONS TARGET...
  local folder=$1 cuda=$2 extra=$3 targets=("${@:4}") started options=() tests
  if [ "$cuda" = KEEP ]; then
    cuda=$(kept "$folder" GANTRAIN_CUDA)
  fi
  cuda=${cuda:-OFF}
  mkdir -p "$folder"
  started=$folder/.started
  touch "$started"
  if [ -e "$folder/CMakeCache.txt" ] && [ ! -e "$folder/.options" ]; then
    is_ours "$folder" || die 4 "$folder was configured by hand for $(sources_of "$folder"), whose sources it would build: remove it"
    say "$folder was configured by hand: building it as it is"
    LIBTORCH=
  else
    setup_build
    if [ "$cuda" = ON ]; then
      trap 'say "without this no GPU can be used; GANTRAIN_CUDA=OFF builds for CPUs alone"' EXIT
      setup_cuda
      trap - EXIT
    fi
    [ "$cuda" = OFF ] || mapfile -t options < <(cuda_options)
    unity=${GANTRAIN_UNITY:-$(kept "$folder" GANTRAIN_UNITY)}
    tests=$(kept "$folder" GANTRAIN_TESTS) # the program alone takes no test library
    [ "${targets[*]}" = gantrain_program ] || tests=ON
    [ "$tests" != ON ] || need_packages "${TEST_BUILD_PACKAGES[@]}"
    # shellcheck disable=SC2086 # several options
    configure "$folder" -DGANTRAIN_UNITY="${unity:-ON}" -DGANTRAIN_TESTS="${tests:-AUTO}" -DCMAKE_PREFIX_PATH="$LIBTORCH" -DGANTRAIN_CUDA="$cuda" -DGANTRAIN_HTTPLIB="${httplib:-}" "${options[@]}" $extra
  fi
  # A CUDA library beside the program is found by it: it is of the same sources, or not there.
  if [ "$cuda" = OFF ] || ! has_cuda_target "$folder"; then
    [ ! -e "$folder/.options" ] || rm -f "$folder/libgantrain_cuda.so"
    [ "$cuda" != ON ] || say "$folder has no CUDA library: it runs on CPUs alone"
  elif [ "$cuda" = ON ] || [[ " ${targets[*]} " == *" gantrain_program "* ]]; then
    ((${#targets[@]} == 0)) || targets+=(gantrain_cuda)
  fi
  cmake --build "$folder" -j "$(jobs)" ${targets:+--target "${targets[@]}"}
  # run.sh compares the sources with this stamp, which has the time before the build.
  if [[ " ${targets[*]:-gantrain_program} " == *" gantrain_program "* ]]; then
    printf '%s\n%s\n' "$cuda" "$LIBTORCH" >"$folder/.new"
    touch -r "$started" "$folder/.new"
    mv "$folder/.new" "$folder/.built"
  fi
}

case ${GANTRAIN_CUDA:-AUTO} in
  AUTO | ON | OFF | KEEP) ;;
  *) die 2 "GANTRAIN_CUDA=$GANTRAIN_CUDA: one of AUTO, ON, OFF" ;;
esac
kind=${1:-}
targets=()
case $kind in
  release) folder=$GANTRAIN_ROOT/build extra="-DCMAKE_BUILD_TYPE=Release" ;;
  debug) folder=$GANTRAIN_ROOT/build-debug extra="-DCMAKE_BUILD_TYPE=Debug" ;;
  asan) folder=$GANTRAIN_ROOT/build-asan extra="-DCMAKE_BUILD_TYPE=Release -DGANTRAIN_SANITIZE=address,undefined" ;;
  ubsan) folder=$GANTRAIN_ROOT/build-ubsan extra="-DCMAKE_BUILD_TYPE=Release -DGANTRAIN_SANITIZE=undefined" ;;
  tsan) folder=$GANTRAIN_ROOT/build-tsan extra="-DCMAKE_BUILD_TYPE=Release -DGANTRAIN_SANITIZE=thread" ;;
  fuzz)
    folder=$GANTRAIN_ROOT/build-fuzz targets=(fuzz)
    need_packages "${FUZZ_PACKAGES[@]}"
    extra="-DCMAKE_BUILD_TYPE=Release -DGANTRAIN_FUZZ=ON -DCMAKE_CXX_COMPILER=$(command -v clang++-14 || command -v clang++)"
    GANTRAIN_CUDA=OFF
    ;;
  *) die 2 "usage: scripts/build.sh release|debug|asan|ubsan|tsan|fuzz [target...]" ;;
esac
(($# < 2)) || targets=("${@:2}")
mkdir -p "$folder"
(
  flock 8 # two starts in one checkout
  build "$folder" "$(cuda_wanted AUTO)" "$extra" "${targets[@]}"
) 8>"$folder/.lock"
