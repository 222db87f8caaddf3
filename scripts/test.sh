#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything and runs the tests:  scripts/test.sh [ctest's arguments]
# Tests of the label slow run only when asked for (-L slow, -R name). Last comes ctest's summary.
. "$(dirname "${BASH_SOURCE[0]}")/setup_python.sh"

setup_build
setup_test
setup_python
"$GANTRAIN_ROOT/scripts/build.sh" release

# A python3 that is a script looks for its interpreter at each start, of which there are hundreds.
shim=$(command -v python3 || true)
if [ -n "$shim" ] && [ "$(head -c 2 "$shim")" = '#!' ]; then
  PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH
fi

choice=(-LE slow)
for argument; do
  case $argument in -L* | -R* | -I* | --label* | --tests-regex* | --rerun-failed) choice=() ;; esac
done
cd "$GANTRAIN_ROOT/build"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# One more than the two processors that are counted on: some tests mostly wait.
ctest -j3 --output-on-failure --no-tests=error "${choice[@]}" "$@" </dev/null 2>&1 | tee "$log" || status=$?

# Why tests were skipped: the line SKIP: that each of them writes.
if grep -q '(Skipped)' "$log"; then
  echo
  awk '/ Testing: / {test = $0; sub(/.* Testing: /, "", test)} /^SKIP: / {print test ": skipped: " substr($0, 7)}' \
    Testing/Temporary/LastTest.log
fi
grep 'tests passed, .* tests failed out of' "$log" || true
exit "$status"
