#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What was clean is not read again until it or what scripts share changes, as with scripts/tidy.sh.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
command -v shellcheck >/dev/null || skip "no shellcheck"
cd "$root"
clean=${GANTRAIN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/gantrain}/shellcheck # by content, so that all checkouts can share it
mkdir -p "$clean" 2>/dev/null || clean=$tmp
shared=$({ shellcheck --version; find scripts test -name '*.sh' ! -name '*_test.sh' | sort | xargs cat; } | sha256sum)
stale=() keys=()
while read -r file; do
  key=$({ echo "$shared"; cat "$file"; } | sha256sum)
  [ -e "$clean/${key%% *}" ] || { stale+=("$file"); keys+=("$clean/${key%% *}"); }
done < <(find scripts test -name '*.sh'; echo .ci/run)
((${#stale[@]})) || exit 0
shellcheck -x "${stale[@]}"
touch "${keys[@]}"
