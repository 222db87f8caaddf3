#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the compiler made of the kernels, read from the machine code of the CUDA library: those that move
# memory use 16-byte loads and stores, none keeps registers in memory.
#   disassembly_test.sh LIBRARY
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
so=${1:?}
[ -e "$so" ] || skip "this build has no CUDA library"

cache=${GANTRAIN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/gantrain}/disassembly

# The tools of a toolkit, or their wheels, which the toolkit's own wheels do not have.
find_tools() {
  command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null && return
  (
    . "$root/scripts/setup.sh"
    fetch_wheel nvidia-cuda-cuobjdump 13.2.51 95c69d3ddf0c2c1f535ec44c3433a66aeee19f588d9d22f73356e20b25f12b50
    unpack "$wheel" "$tmp" 2 '*/bin/cuobjdump'
    fetch_wheel nvidia-cuda-nvdisasm 13.5.37 d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca
    unpack "$wheel" "$tmp" 2 '*/bin/nvdisasm'
  ) >"$tmp/fetched" 2>&1 || return
  chmod +x "$tmp"/bin/*
  PATH=$tmp/bin:$PATH
}
find_tools || skip "no cuobjdump and nvdisasm: $(tail -n 1 "$tmp/fetched")"

# demangled FIELD: lines with a kernel's mangled name in that field have its short one there.
demangled() {
  c++filt | sed 's/gantrain::cuda_kernels:://g; s/(anonymous namespace):://g' |
    awk -F '\t' -v OFS='\t' -v f="$1" '{sub(/.*run_body</, "", $f); sub(/>\(.*/, "", $f); print}'
}

# One line for each kernel of each architecture: sm_90 NAME, then how often each kind of access is in it.
accesses() {
  cuobjdump -sass "$so" | LC_ALL=C grep -E 'arch = |Function : |LDG\.|STG\.|LDL|STL' | LC_ALL=C awk '
    function show() { if (name != "") print arch "\t" name "\t" load16 "\t" store16 "\t" local }
    /arch = / {arch = $NF}
    /Function : / {
      show()
      name = $NF
      load16 = store16 = local = 0
    }
    /LDG\.[A-Z0-9.]*128/ {++load16}
    /STG\.[A-Z0-9.]*128/ {++store16}
    /(LDL|STL)[ .]/ {++local}
    END {show()}' | demangled 2
}

# identity FOLDER: of the machine code, by all that makes it: the compiler, its flags, the kernels and what they include of the
# project; empty where that is not known. The code itself has the names of its folders in it.
identity() {
  local sources
  sources=$(cat "$1"/cuda_kernels/*.d 2>/dev/null | grep -o "$root/lib/[^ \\]*" | sort -u)
  # A library that is older than they are was made of others.
  if [ -z "$sources" ] || [ -n "$(xargs -d '\n' -I{} find {} -newer "$so" <<<"$sources")" ]; then return; fi
  {
    sed -n 's/^ *COMMAND = .*\( [^ ]*nvcc .*\) -MD .*/\1/p' "$1/build.ninja" | sed "s#$root/##g" | sort -u
    "$(sed -n 's/^CUDAToolkit_NVCC_EXECUTABLE:[A-Z]*=//p' "$1/CMakeCache.txt")" --version
    cat "${BASH_SOURCE[0]}"
    xargs -d '\n' cat <<<"$sources"
  } | sha256sum | cut -d' ' -f1
}

# It takes half a minute to disassemble; what was read of the same machine code is kept in the cache, as tidy.sh does.
key=$(identity "$(dirname "$so")")
if [ -n "$key" ] && [ -s "$cache/$key" ]; then
  cp "$cache/$key" "$tmp/kernels"
else
  accesses >"$tmp/kernels"
  if [ -n "$key" ] && mkdir -p "$cache"; then
    cp "$tmp/kernels" "$cache/.$key.$$"
    mv "$cache/.$key.$$" "$cache/$key"
  fi
fi

# wide LOADS STORES PATTERN: every kernel of that name has so many 16-byte loads and stores, at least.
wide() {
  local found narrow
  found=$(grep -Ec -- "$3" <(cut -f2 "$tmp/kernels") || true)
  ((found > 0)) || { echo "FAILED: no kernel is $3" >&2; exit 1; }
  narrow=$(awk -F '\t' -v p="$3" -v l="$1" -v s="$2" '$2 ~ p && ($3 < l || $4 < s)' "$tmp/kernels")
  expect "16-byte accesses ($1 loads, $2 stores) of $3, $found kernels" "" "$narrow"
}
for architecture in sm_75 sm_80 sm_90 sm_100; do
  grep -q "^$architecture" "$tmp/kernels" || { echo "FAILED: nothing is compiled for $architecture" >&2; exit 1; }
done
wide 0 1 '^DrawBody'
full='<(float, 4|Half, 8|BFloat16, 8)'
wide 1 1 "BiasActWork$full"
wide 1 1 "[^d]GradientWork$full"
wide 1 1 "ModulatedWork$full"
wide 1 1 "ModulatedGradientWork$full"
wide 1 1 "ModulatedSecondWork$full"
wide 2 1 "AddedActWork$full"
wide 1 2 "ScaledActWork$full"
wide 2 1 "ScaledGradientWork$full"
wide 1 1 '^PlanesBody<(float|Half|BFloat16),'
wide 1 1 '^PixelsBody<(float|Half|BFloat16),'
wide 1 1 "^PixelNormBody$full"
wide 1 1 "^AdainWriteBody$full"
wide 1 0 "^AdainSumsBody$full"
wide 1 0 "^MeasureBody$full"
wide 1 1 "^SlopeBody$full"

expect "kernels that keep registers in local memory" "" "$(awk -F '\t' '$5 > 0 {print $1, $2, $5}' "$tmp/kernels")"

# Registers and shared memory of each kernel on sm_90, and how many warps of the 64 that a multiprocessor
# holds its registers leave room for, beside kernel_resources.txt. GANTRAIN_UPDATE=1 writes that file anew.
table=$(dirname "${BASH_SOURCE[0]}")/kernel_resources.txt
cuobjdump --dump-resource-usage "$so" | awk '
  /^arch = / {arch = $NF}
  /^ Function / {name = $2; sub(/:$/, "", name)}
  /^ *REG:/ && arch == "sm_90" {
    match($0, /REG:[0-9]+/); registers = substr($0, RSTART + 4, RLENGTH - 4)
    match($0, /SHARED:[0-9]+/); shared = substr($0, RSTART + 7, RLENGTH - 7)
    warps = int(65536 / (32 * 8 * int((registers + 7) / 8))); if (warps > 64) warps = 64
    print registers "\t" shared "\t" warps "\t" name
  }' | demangled 4 | LC_ALL=C sort -t $'\t' -k4 >"$tmp/resources"
if [ -n "${GANTRAIN_UPDATE:-}" ]; then
  { printf '# registers\tshared bytes\twarps\tkernel, sm_90\n'; cat "$tmp/resources"; } >"$table"
fi
expect "the kernels of kernel_resources.txt (GANTRAIN_UPDATE=1 writes it anew)" "$(grep -v '^#' "$table" | cut -f4)" \
  "$(cut -f4 "$tmp/resources")"
grown=$(paste <(grep -v '^#' "$table") "$tmp/resources" |
  awk -F '\t' '$5 > 1.1 * $1 || $6 > 1.1 * $2 {print $4 ": " $1 " registers, " $2 " bytes, now " $5 ", " $6}')
expect "kernels that take a tenth more" "" "$grown"
echo "$(wc -l <"$tmp/kernels") kernels"
