#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-format 14 over all sources, in place:  scripts/format.sh    or a check alone: --check
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${1:-} in
  '') how=(-i) ;;
  --check) how=(--dry-run -Werror) ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
program=$(command -v clang-format-14 || command -v clang-format) || { echo "SKIP: no clang-format"; exit 77; }
version=$("$program" --version)
[[ $version == *'version 14.'* ]] || { echo "SKIP: the layout is that of clang-format 14; this is $version"; exit 77; }
find app lib test -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -P "$(nproc)" -n 20 "$program" --style=file "${how[@]}"
