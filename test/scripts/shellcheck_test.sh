#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
command -v shellcheck >/dev/null || skip "no shellcheck"
cd "$root"
find scripts test -name '*.sh' -print0 | xargs -0 shellcheck -x .ci/run
