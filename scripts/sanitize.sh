#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds tests with a sanitizer of the compiler and runs them:
#   scripts/sanitize.sh address|undefined|thread [TEST...]
# address checks for undefined behaviour too. TEST is a test program without its test_, as in util or
# launch; without any, those of all modules that know no LibTorch, and of data, core and distributed.
# They are built in build-asan/, build-ubsan/ and build-tsan/. What is reported ends a test. What is
# not ours is listed, each with its reason, in test/sanitizers/.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

folder=
case ${1:-} in
  address) folder=build-asan ;;
  undefined) folder=build-ubsan ;;
  thread) folder=build-tsan ;;
  *) die 2 "usage: scripts/sanitize.sh address|undefined|thread [TEST...]" ;;
esac
tests=("${@:2}")
((${#tests[@]})) || tests=(util config launch image cpu_kernels ddp_plan curation data core distributed)
"$GANTRAIN_ROOT/scripts/build.sh" "${folder#build-}" "${tests[@]/#/test_}"

supp=$GANTRAIN_ROOT/test/sanitizers
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=0
export LSAN_OPTIONS=suppressions=$supp/leak.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1
# Ranks are forked from processes that have threads, but none that runs then.
export TSAN_OPTIONS=suppressions=$supp/thread.supp:die_after_fork=0:second_deadlock_stack=1:halt_on_error=1
run() { # run TEST...
  local pattern
  pattern=$(IFS='|'; echo "$*")
  ctest --test-dir "$GANTRAIN_ROOT/$folder" -j "$(nproc)" --output-on-failure --no-tests=error --timeout 900 \
    -LE slow -R "^($pattern)(/|\$)" </dev/null
}
with_torch=() without=()
for test in "${tests[@]}"; do
  case $test in core | data | distributed) with_torch+=("$test") ;; *) without+=("$test") ;; esac
done
status=0
((${#without[@]} == 0)) || run "${without[@]}" || status=$?
# Of LibTorch's mutexes the thread sanitizer sees some operations and others not (thread.supp), so that
# they seem unlocked twice, or locked in a circle. Races are looked for as everywhere.
TSAN_OPTIONS+=:report_mutex_bugs=0:detect_deadlocks=0
((${#with_torch[@]} == 0)) || run "${with_torch[@]}" || status=$?
exit "$status"
