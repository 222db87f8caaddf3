#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy 14 (.clang-tidy) over what the build in build/ compiles of app and lib, batches of sources or single ones:
#   scripts/tidy.sh            what is compiled without LibTorch: seconds a batch
#   scripts/tidy.sh --all      everything; LibTorch's headers cost half a minute a batch
#   scripts/tidy.sh FILE...    these, as compile_commands.json names them
# What was clean is not read again until it, what it includes or .clang-tidy changes.
# shellcheck source=scripts/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$GANTRAIN_ROOT"
program=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "SKIP: no clang-tidy"; exit 77; }
version=$("$program" --version)
[[ $version == *'version 14.'* ]] ||
  { echo "SKIP: .clang-tidy is written for clang-tidy 14; this is $(grep -o 'version [0-9.]*' <<<"$version" | head -n 1)"; exit 77; }
[ -e build/compile_commands.json ] || die 4 "tidy.sh reads build/compile_commands.json: scripts/build.sh release makes it"
# g++'s precompiled header and OpenMP are nothing for clang; the header tells the sources that use LibTorch from the others.
pch='-Winvalid-pch -include [^ ]*cmake_pch.hxx'
mkdir -p build/tidy
sed "s#$pch##; s# -fopenmp##" build/compile_commands.json >build/tidy/compile_commands.json
sources() { # sources FILTER...: batches and single sources of app and lib whose command passes
  grep '"command": ' build/compile_commands.json | "$@" |
    sed -n -E "s# *\"command\": .* -c $GANTRAIN_ROOT/((app|lib)/[^ ]*\.cpp|build/unity/gantrain(_[^ ]*)?_[0-9]+\.cpp)\",*#\1#p" |
    grep -v /gantrain_test_ | sort -u
}

case ${1:-} in
  '') mapfile -t files < <(sources grep -v -e "$pch" -e gantrain_cuda_EXPORTS) ;; # the CUDA library has no such header
  --all) mapfile -t files < <(sources cat) ;;
  *) files=("$@") ;;
esac

# What the compiler saw each source include of the project: source -> files, separated by blanks. A batch is the
# first of its own list. ccache names them as seen from the build folder.
declare -A included
while read -r source header; do
  included[$source]+=" $header"
done < <(ninja -C build -t deps | awk -v root="$GANTRAIN_ROOT/" '
  !/^ / { source = ""; next }
  {
    file = $1
    if (index(file, root) == 1) file = substr(file, length(root) + 1)
    else if (file ~ /^\//) next
    else if (!sub(/^\.\.\//, "", file)) file = "build/" file
    if (source == "") source = file
    print source, file
  }')

clean=$GANTRAIN_CACHE_DIR/tidy # by content, so that all checkouts can share it
mkdir -p "$clean"
stale=()
for file in "${files[@]}"; do
  # shellcheck disable=SC2086 # several files
  key=$(cat .clang-tidy ${included[$file]:-} | sha256sum)
  [ -n "${included[$file]:-}" ] && [ -e "$clean/${key%% *}" ] || stale+=("$file" "$clean/${key%% *}")
done
((${#stale[@]})) || exit 0
printf '%s\0' "${stale[@]}" | xargs -0 -P "$(nproc)" -n 2 bash -c '
  if said=$("$0" --quiet -p build/tidy "$1" 2>&1); then : >"$2"; else echo "$said"; exit 1; fi' "$program"
