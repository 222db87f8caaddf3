# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh --pack: the archive for a machine with a GPU and without this checkout. Sourced.
. "$root/scripts/setup.sh"
. "$root/scripts/package/libraries.sh"

readonly MOST_BYTES=$((28 * 1024 * 1024))

# place BUILD FOLDER: program, tests and their libraries in bin/, each finding the system's in bin/libraries.
place() {
  local build=$1 bin=$2/bin file
  mkdir -p "$bin"
  for file in gantrain test_cuda_device libgantrain_trainer.so libgantrain_cuda.so; do
    if [ ! -e "$build/$file" ]; then
      [ "$file" != libgantrain_cuda.so ] || [ -z "${GANTRAIN_PACK_WITHOUT_CUDA:-}" ] || continue
      die 4 "$build has no $file: GANTRAIN_CUDA=ON scripts/build.sh release gantrain_program test_cuda_device makes it"
    fi
    install -m 755 "$build/$file" "$bin/$file"
    strip --strip-unneeded "$bin/$file"
    # shellcheck disable=SC2016 # the loader replaces it
    patchelf --set-rpath '$ORIGIN/libraries' "$bin/$file"
  done
  bundle "$bin/libraries" "$2/licenses" "$build"/{gantrain,test_cuda_device,libgantrain_trainer.so}
  strip --strip-unneeded "$bin"/libraries/*
}

# place_scripts FOLDER: those that check, those that bench starts, and what says whose they are.
place_scripts() {
  local file
  for file in "$root"/scripts/{gpu_check.sh,gpu_check/{report,libraries,lives_right,fast_breaks}.sh,gpu_check/{results,compare}.py,peers/*.py}; do
    install -D -m "$([ -x "$file" ] && echo 755 || echo 644)" "$file" "$1/scripts/${file#"$root/scripts/"}"
  done
  install -m 644 "$root/LICENSE" "$1/LICENSE"
  { git -C "$root" describe --always --dirty 2>/dev/null || echo unknown; } >"$1/COMMIT"
}

# make_pack FILE PROGRAM
make_pack() {
  local file=$1 build stage size
  [ -x "$2" ] || die 4 "$2 is no program: GANTRAIN_CUDA=ON scripts/build.sh release gantrain_program test_cuda_device makes it"
  build=$(cd "$(dirname "$2")" && pwd)
  need_packages patchelf binutils xz-utils
  setup_slim_libraries
  umask 022
  stage=$(mktemp -d "${TMPDIR:-/tmp}/gpu_check-XXXXXX") || die 8 "no folder can be made in ${TMPDIR:-/tmp}"
  # shellcheck disable=SC2064 # this folder
  trap "rm -rf '$stage'" EXIT
  place "$build" "$stage/gpu_check"
  place_scripts "$stage/gpu_check"
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -cf - gpu_check | xz -T1 "-${GANTRAIN_PACK_LEVEL:-3}" >"$file.part" ||
    die 8 "$file cannot be written"
  size=$(stat -c %s "$file.part")
  if ((size > MOST_BYTES)); then
    rm -f "$file.part"
    die 1 "the archive has $size bytes, and $MOST_BYTES are the most"
  fi
  mv "$file.part" "$file" || die 8 "$file cannot be written"
  say "$file: $((size / 1024)) KiB; tar -xf it, then gpu_check/scripts/gpu_check.sh --out results --only lives"
  echo "$file"
}
