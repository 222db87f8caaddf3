#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds what is stale, then runs gantrain:  scripts/run.sh ARGS...
# Standard output is gantrain's alone. Where nothing changed since the last build, this costs a look
# at the sources' times.
set -euo pipefail
# With CDPATH, cd prints where it went.
root=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

. "$root/scripts/setup_cuda.sh"
if has_gpu; then cuda=$(cuda_wanted AUTO); else cuda=$(cuda_wanted KEEP); fi

up_to_date() {
  local built=$root/build/.built built_cuda libtorch
  [ -x "$root/build/gantrain" ] && [ -e "$built" ] || return
  { read -r built_cuda && read -r libtorch; } <"$built" || return
  [ "$cuda" = KEEP ] || [ "$cuda" = "$built_cuda" ] || return
  [ -z "$libtorch" ] || [ -e "$libtorch/lib/libtorch_cpu.so" ] || return
  [ "$built_cuda" != ON ] || [ -z "$libtorch" ] || [ -e "$root/build/libgantrain_cuda.so" ] || return
  # Folders too, whose times tell of files that went away.
  [ -z "$(cd "$root" && find CMakeLists.txt app lib presets scripts/cmake scripts/build.sh \
    scripts/setup.sh scripts/setup_cuda.sh scripts/setup_sources.sh scripts/wheels.txt -newer "$built" -print -quit 2>/dev/null)" ]
}

up_to_date || GANTRAIN_CUDA=$cuda "$root/scripts/build.sh" release gantrain_program >&2
# The program says commands as it was started itself: by "bash run.sh", a shell would not find "run.sh".
spelling=$0
case $spelling in */*) ;; *) spelling=./$spelling ;; esac
exec -a "$spelling" "$root/build/gantrain" "$@"
