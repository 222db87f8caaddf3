#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No kernel of the CUDA library has a race: the thread sanitizer follows each lane of its blocks
# (test/cuda_kernels/races.cpp), and finds a barrier that is missing and blocks that share a place.
#   kernel_races_test.sh PROGRAM
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
races=${1:?}
export LC_ALL=C

# The sanitizer's own memory has fixed addresses, where a kernel may put the program's.
as_it_was=()
if setarch -R true 2>/dev/null; then as_it_was=(setarch -R); fi

if ! "${as_it_was[@]}" "$races" >"$tmp/ran" 2>"$tmp/said"; then
  head -n 60 "$tmp/said" >&2
  exit 1
fi
bodies=$(cd "$root/lib/ops" && grep -rhoE '^(struct|class) [A-Za-z]+Body\b' --include='*.cu' --include=planes_walk.h . | awk '{print $2}' | sort -u)
expect "bodies that ran" "$bodies" "$(grep -oE '[A-Z][A-Za-z]*Body' "$tmp/ran" | sort -u)"

for planted in barrier blocks; do
  status=0
  "${as_it_was[@]}" "$races" "$planted" >"$tmp/ran" 2>"$tmp/said" || status=$?
  expect "exit of $planted" 66 "$status"
  grep -q 'WARNING: ThreadSanitizer: data race' "$tmp/said" || expect "what is said of $planted" "a data race" "$(cat "$tmp/said")"
done
echo "$(wc -w <<<"$bodies") bodies have no race"
