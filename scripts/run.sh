#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds what is stale, then runs gantrain:  scripts/run.sh ARGS...
# Standard output is gantrain's alone. Where nothing changed since the last build, this costs a look
# at the sources' times.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

cuda=${GANTRAIN_CUDA:-}
if [ -z "$cuda" ]; then
  cuda=KEEP
  if compgen -G '/dev/nvidia[0-9]*' >/dev/null || [ -e /dev/dxg ]; then cuda=AUTO; fi
fi

up_to_date() {
  local built=$root/build/.built built_cuda libtorch
  [ -x "$root/build/gantrain" ] && [ -e "$built" ] || return
  { read -r built_cuda && read -r libtorch; } <"$built" || return
  [ "$cuda" = KEEP ] || [ "$cuda" = "$built_cuda" ] || return
  [ -z "$libtorch" ] || [ -e "$libtorch/lib/libtorch_cpu.so" ] || return
  # Folders too, whose times tell of files that went away.
  [ -z "$(cd "$root" && find CMakeLists.txt app lib presets scripts/cmake scripts/build.sh \
    scripts/setup.sh -newer "$built" -print -quit 2>/dev/null)" ]
}

up_to_date || GANTRAIN_CUDA=$cuda "$root/scripts/build.sh" release gantrain_program >&2
exec "$root/build/gantrain" "$@"
