#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cmake --install: the tree runs after it was moved, on a machine without the build folder, LibTorch's
# folder and a CUDA Toolkit. The CUDA side's 3 GB are not copied here: files of a few bytes stand for them.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$1")
[ -e "$build/libgantrain_trainer.so" ] || skip "the trainer library was not built"

# --- what is copied where, and what if something is missing
mkdir -p "$tmp/torch" "$tmp/toolkit"
echo torch >"$tmp/torch/libone.so.1"
echo toolkit >"$tmp/toolkit/libtwo.so.2.34"
ln -s libtwo.so.2.34 "$tmp/toolkit/libtwo.so.2"
ln -s "$tmp/toolkit/libtwo.so.2" "$tmp/torch/libtwo.so.2"
echo other >"$tmp/toolkit/libone.so.1"
copy() { # copy LIBRARIES
  cmake "-Dfolders=$tmp/torch;$tmp/toolkit" "-Dlibraries=$1" "-DCMAKE_INSTALL_PREFIX=$tmp/prefix" \
    -P "$root/scripts/cmake/InstallLibraries.cmake" 2>&1
}
copy "libone.so.1;libtwo.so.2" >/dev/null
rm -r "$tmp/torch" "$tmp/toolkit"
expect "links become files; LibTorch's folder comes first" "torch toolkit" \
  "$(cat "$tmp/prefix/lib/gantrain/libone.so.1" "$tmp/prefix/lib/gantrain/libtwo.so.2" | xargs)"
code=0; said=$(copy libthree.so.3) || code=$?
expect "a library that is nowhere ends it" "1 libthree.so.3 is in none of" \
  "$code $(grep -o 'libthree.so.3 is in none of' <<<"$said")"
if [ -e "$build/libgantrain_cuda.so" ]; then
  listed=$(sed -n 's/^ *set(libraries "\(.*\)")$/\1/p' "$build/app/cmake_install.cmake" | tr ';' '\n' | sort)
  expect "every library of wheels.txt is installed" "" \
    "$(comm -23 <(grep -v '^#' "$root/scripts/wheels.txt" | cut -d' ' -s -f5- | tr ' ' '\n' | grep . | sort) <(echo "$listed"))"
fi

# --- the CPU side, for real
echo 'int main() {}' | g++ -x c++ - -o "$tmp/open" -Wl,-rpath,'/usr/lib:$ORIGIN/x::here:'
expect "open entries of a RUNPATH are found" "open: '' open: 'here' open: ''" "$(open_runpaths "$tmp/open" | xargs -d '\n')"
mapfile -t built < <(find "$build" -maxdepth 1 -type f \( -name '*.so' -o -perm -u+x ! -name '*.*' \))
expect "nothing that is built looks for libraries in the current folder" "" "$(open_runpaths "${built[@]}")"
cmake --install "$build" --component cpu --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/a moved tree"
tree="$tmp/a moved tree"
expect "no path leads out of the tree" "Library runpath: [\$ORIGIN/gantrain]" \
  "$(readelf -d "$tree/bin/gantrain" "$tree"/lib/*.so | grep -o 'Library r.*path.*' | sort -u)"

hidden=("$build" "$(sed -n 's/^GANTRAIN_TORCH_CPU:[A-Z]*=\(.*\)\/lib\/.*/\1/p' "$build/CMakeCache.txt")")
for folder in /usr/local/cuda*; do
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then hidden+=("$folder"); fi
done
mkdir "$tmp/empty" "$tmp/work"
cat >"$tmp/elsewhere.sh" <<'END'
set -euo pipefail
tmp=$1 tree=$2
for folder in "${@:3}"; do mount --bind "$tmp/empty" "$folder"; done
cd "$tmp/work"
[ ! -e "$3/gantrain" ]
ldd "$tree/bin/gantrain" "$tree"/lib/*.so "$tree"/lib/gantrain/*.so* | grep 'not found' || true
"$tree/bin/gantrain" --version
"$tree/bin/gantrain" --smoke
END
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
  skip "the tree was checked; running it with the build folder hidden takes root and a mount namespace"
fi
code=0
unshare -m bash "$tmp/elsewhere.sh" "$tmp" "$tree" "${hidden[@]}" >"$tmp/said" 2>&1 || code=$?
expect "it runs where nothing else is" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
expect "all libraries are found" "" "$(grep 'not found' "$tmp/said" || true)"
expect "its version" "gantrain" "$(head -n 1 "$tmp/said" | grep -o '^gantrain')"
