#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets and runs each for an hour, on all processors:
#   scripts/fuzz_nightly.sh [SECONDS] [NAME...]     other seconds for each, these targets alone
# What the fuzzers find new is kept in build-fuzz/found/NAME and is where the next night begins.
# Inputs that failed are left in build-fuzz/fuzz_NAME-{crash,leak,timeout,oom}-... and named at the
# end; then the exit code is 1. Run one again:  build-fuzz/fuzz_NAME FILE
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

seconds=${1:-3600}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die 2 "usage: scripts/fuzz_nightly.sh [SECONDS] [NAME...]"
names=("${@:2}")
"$GANTRAIN_ROOT/scripts/build.sh" fuzz
folder=$GANTRAIN_ROOT/build-fuzz
# The tests of the label fuzz run for as long as the folder is configured for.
trap 'cmake -DGANTRAIN_FUZZ_SECONDS=60 "$folder" >/dev/null' EXIT
cmake -DGANTRAIN_FUZZ_SECONDS="$seconds" "$folder" >/dev/null
started=$folder/.nightly
touch "$started"

choice=(-L fuzz)
if ((${#names[@]})); then
  pattern=$(IFS='|'; echo "${names[*]}")
  choice+=(-R "^fuzz/($pattern)\$")
fi
status=0
ctest --test-dir "$folder" -j "$(nproc)" --output-on-failure --no-tests=error "${choice[@]}" </dev/null || status=1

mapfile -t failed < <(find "$folder" -maxdepth 1 -name 'fuzz_*-*-*' -newer "$started" | sort)
for file in "${failed[@]}"; do
  say "an input that fails: $file ($(stat -c %s "$file") bytes)"
done
if ((status)); then
  say "some targets failed; scripts/build.sh fuzz, then build-fuzz/fuzz_NAME FILE shows one again"
else
  say "no target failed in $seconds seconds each"
fi
exit "$status"
