#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The configure step on a LibTorch whose c10d::Reducer is another one: it goes on, and says so. Where it could not tell,
# it ends, and tries again.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
build=$(dirname "$1")
[ -f "$build/CMakeCache.txt" ] || skip "no build folder beside $1"
torch=$(sed -n 's/^GANTRAIN_TORCH_INCLUDE:PATH=//p' "$build/CMakeCache.txt")
sed 's/static_assert(std::is_constructible_v<Reducer,/&\n                                      std::thread,/' \
  "$root/scripts/cmake/reducer_probe.cpp" >"$tmp/probe.cpp"
ln -s "$(dirname "$torch")" "$tmp/a torch" # its path may have a blank
configure() {
  cmake -S "$root" -B "$tmp/build" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/a torch" -DGANTRAIN_CUDA=OFF \
    -DGANTRAIN_TESTS=OFF "$@" >"$tmp/said" 2>&1 || { cat "$tmp/said" >&2; exit 1; }
}
has() { grep -c "$1" "$2" || true; }

configure -DGANTRAIN_REDUCER_PROBE="$tmp/probe.cpp"
expect "it says what to do" 1 "$(tr '\n' ' ' <"$tmp/said" | tr -s ' ' | has 'will need --ddp-mode flat' -)"
expect "LibTorch's headers were read" yes "$(grep -q 'static assertion failed' "$tmp/build/reducer_probe.log" && echo yes)"
expect "the stand-in is compiled" 1 "$(has 'build .*gantrain_distributed.dir/reducer_absent.cpp.o:' "$tmp/build/build.ninja")"
expect "the Reducer is not" 0 "$(has 'build .*gantrain_distributed.dir/reducer.cpp.o:' "$tmp/build/build.ninja")"
expect "the thin program does not know it" 0 "$(has 'DEFINES = .*GANTRAIN_REDUCER' "$tmp/build/build.ninja")"

# The build folder itself was configured with 2.11's.
expect "2.11's fits" TRUE "$(sed -n 's/^GANTRAIN_REDUCER:[A-Z]*=//p' "$build/CMakeCache.txt")"
expect "the Reducer is compiled" 1 "$(has 'build .*gantrain_distributed.dir/reducer.cpp.o:' "$build/build.ninja")"
expect "its stand-in is not" 0 "$(has 'build .*gantrain_distributed.dir/reducer_absent.cpp.o:' "$build/build.ninja")"
expect "the thin program knows it" yes "$([ "$(has 'DEFINES = .*GANTRAIN_REDUCER' "$build/build.ninja")" -gt 0 ] && echo yes)"

# A compiler that is killed, and, the second time, compiles nothing in the probe's place.
program "$tmp/launcher" <<END
case "\$*" in *reducer_probe.cpp*) ;; *) exec "\$@" ;; esac
[ -e $tmp/once ] || { touch $tmp/once; echo "fatal error: Killed"; exit 1; }
while [ "\$1" != -o ]; do shift; done
exec g++ -x c++ -c /dev/null -o "\$2"
END
again() {
  cmake -S "$root" -B "$tmp/again" -G Ninja -DCMAKE_PREFIX_PATH="$tmp/a torch" -DCMAKE_CXX_COMPILER_LAUNCHER="$tmp/launcher" \
    -DGANTRAIN_CUDA=OFF -DGANTRAIN_TESTS=OFF >"$tmp/said" 2>&1
}
code=0; again || code=$?
expect "2.11's headers and a compiler that fails" "1 too little memory 1" \
  "$code $(tr '\n' ' ' <"$tmp/said" | tr -s ' ' | grep -o 'too little memory') $(has Killed "$tmp/again/reducer_probe.log")"
again || { cat "$tmp/said" >&2; exit 1; }
expect "the same command tries again" TRUE "$(sed -n 's/^GANTRAIN_REDUCER:[A-Z]*=//p' "$tmp/again/CMakeCache.txt")"
