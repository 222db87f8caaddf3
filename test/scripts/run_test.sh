#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh and build.sh on a project of one file: what is built when, and what a second start costs.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
unset GANTRAIN_CUDA
mkdir -p "$tmp/project/scripts" "$tmp/torch/lib" && cd "$tmp/project"
cp "$root"/scripts/{setup,setup_cuda,setup_sources,build,run}.sh "$root/scripts/wheels.txt" scripts/
# A GPU, and a network to fetch its libraries by, are files here.
cat >>scripts/setup_cuda.sh <<'END'
has_gpu() { [ -e "${BASH_SOURCE[0]%/*}/../gpu" ]; }
setup_cuda() { [ ! -e "$GANTRAIN_ROOT/offline" ] || die 4 "a wheel could not be downloaded"; }
cuda_options() { [ ! -e "$GANTRAIN_ROOT/toolkit" ] || echo -DTOOLKIT=ON; }
END
export GANTRAIN_LIBTORCH=$tmp/torch
: >"$tmp/torch/lib/libtorch_cpu.so"
mkdir -p app/cuda lib presets
echo 'int cuda() { return 0; }' >app/cuda/cuda.cpp
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(dummy LANGUAGES CXX)
set(GANTRAIN_CUDA OFF CACHE STRING "")
file(GLOB sources CONFIGURE_DEPENDS app/*.cpp)
add_executable(gantrain ${sources})
add_custom_target(gantrain_program DEPENDS gantrain)
if(GANTRAIN_CUDA STREQUAL "ON" OR TOOLKIT)
  add_library(gantrain_cuda SHARED app/cuda/cuda.cpp)
endif()
END
cat >app/main.cpp <<'END'
#include <cstdio>
#include <cstdlib>
int main(int n, char** args) {
  if (std::getenv("SPELLING")) std::printf("%s ", args[0]);
  std::printf("%s %d\n", "one", n);
  return n > 1 ? std::atoi(args[1]) : 0;
}
END
run() { scripts/run.sh "$@" 2>"$tmp/said"; }

expect "the first start builds; standard output is the program's" "one 1" "$(run)"
expect "what it says goes to standard error" yes "$(grep -q main.cpp "$tmp/said" && echo yes)"
expect "the second start is silent" "one 1" "$(run)$(cat "$tmp/said")"
code=0; said=$(run 75 x) || code=$?
expect "arguments and exit code" "one 3 75" "$said $code"
expect "the program is told how it was started" "scripts/run.sh one 1" "$(SPELLING=1 run)"
expect "started by bash from its folder" "./run.sh one 1" "$(cd scripts && SPELLING=1 bash run.sh)"
expect "with CDPATH, by which cd prints" "one 1" "$(CDPATH=. run)"
cd /
expect "from another folder" "one 1" "$("$tmp/project/scripts/run.sh")"
cd "$tmp/project"

touch -d tomorrow "$tmp/later"
sed -i s/one/two/ app/main.cpp
expect "a changed source" "two 1" "$(run)"
echo 'int unused() { return 1; }' >app/more.cpp
expect "a new source is built" yes "$(run >/dev/null; grep -q more.cpp "$tmp/said" && echo yes)"
rm app/more.cpp
expect "a removed source: built again" yes "$(run >/dev/null; [ -s "$tmp/said" ] && echo yes)"
echo 'syntax error' >>app/main.cpp
expect "what does not compile does not run" "" "$(run || true)"
sed -i '$d' app/main.cpp
expect "mended" "two 1" "$(run)"

expect "CUDA was not asked for" OFF "$(head -n 1 build/.built)"
GANTRAIN_CUDA=AUTO scripts/build.sh release >/dev/null
expect "configured with CUDA, it stays so" AUTO "$(run >/dev/null; head -n 1 build/.built)"
touch toolkit
built_for() { # built_for CUDA: which libraries there are when the program was built so
  GANTRAIN_CUDA=$1 scripts/build.sh release gantrain_program >/dev/null 2>&1
  (cd build && echo *.so)
}
expect "AUTO and a toolkit: the program has its CUDA library" libgantrain_cuda.so "$(built_for AUTO)"
sed -i s/cuda/kernels/ app/cuda/cuda.cpp
run >/dev/null
expect "it is of the same sources as the program" 1 "$(nm -D build/libgantrain_cuda.so | grep -c kernels)"
rm toolkit
expect "AUTO without the toolkit: an older CUDA library goes" '*.so' "$(built_for AUTO)"

touch gpu
expect "a GPU has appeared: the CUDA library is built" "two 1 ON" \
  "$(run | tr '\n' ' ' && [ -e build/libgantrain_cuda.so ] && head -n 1 build/.built)"
expect "the second start with a GPU is silent" "two 1" "$(run)$(cat "$tmp/said")"
rm build/libgantrain_cuda.so
expect "without its CUDA library it is not up to date" yes "$(run >/dev/null; [ -e build/libgantrain_cuda.so ] && echo yes)"
rm gpu
expect "the GPU is gone: what is built serves" "two 1" "$(run)$(cat "$tmp/said")"
expect "told to build for CPUs, the CUDA library goes" '*.so' "$(built_for OFF)"
touch gpu offline
rm -r build
code=0; said=$(run) || code=$?
expect "a GPU and no CUDA library to be had: nothing runs on the CPU in its place" " 4" "$said $code"
expect "it says what to do" "gantrain: without this no GPU can be used; GANTRAIN_CUDA=OFF builds for CPUs alone" \
  "$(tail -n 1 "$tmp/said")"
expect "told so, it builds for CPUs" "two 1 OFF" "$(GANTRAIN_CUDA=OFF run | tr '\n' ' ' && head -n 1 build/.built)"
rm gpu offline
code=0; GANTRAIN_CUDA=yes run || code=$?
expect "another word than AUTO, ON, OFF: exit code" 2 "$code"

# Such a folder names the original's sources.
cp -a . "$tmp/copy"
sed -i s/two/copied/ "$tmp/copy/app/main.cpp"
expect "a copy with its build folder builds its own sources" "copied 1" "$("$tmp/copy/scripts/run.sh" 2>/dev/null)"
expect "the original is left as it was" "two 1" "$(run)$(cat "$tmp/said")"
ln -s project "$tmp/link"
touch app/main.cpp
expect "by another path it is the same checkout" "two 1" "$("$tmp/link/scripts/run.sh" 2>"$tmp/said")"
expect "which is not configured anew" no "$(grep -q Configuring "$tmp/said" || echo no)"

milliseconds() { # the fastest of five
  local start
  for _ in {1..5}; do start=$(date +%s%N); "$@" >/dev/null; echo $((($(date +%s%N) - start) / 1000000)); done | sort -n | head -n 1
}
cp -r "$root"/lib .  # as many sources as the real project has
scripts/run.sh >/dev/null 2>&1 || true
touch -r "$tmp/later" build/.built
overhead=$(($(milliseconds scripts/run.sh) - $(milliseconds build/gantrain)))
echo "a second start adds $overhead ms"
expect "a second start adds under 300 ms" yes "$([ "$overhead" -lt 300 ] && echo yes || echo "$overhead ms")"

rm -rf build
cmake -S . -B build >/dev/null
expect "a folder configured by hand is built as it is" "configured by hand" \
  "$(run >/dev/null || true; grep -o 'configured by hand' "$tmp/said")"
mkdir "$tmp/second"
cp -a build CMakeLists.txt app scripts "$tmp/second/"
touch "$tmp/second/app/main.cpp"
code=0; "$tmp/second/scripts/run.sh" 2>"$tmp/said" || code=$?
expect "not in a copy, where it would build the original's sources" "4 for $tmp/project" \
  "$code $(grep -o "for $tmp/project" "$tmp/said")"
