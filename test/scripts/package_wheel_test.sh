#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel: installed by pip into an empty environment, it runs with that environment's PyTorch, as
# another user, where neither the build folder nor LibTorch's is. Nothing is downloaded: PyTorch's own
# libraries stand in for the whole package.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$(realpath "$1")")
[ -e "$build/libgantrain_trainer.so" ] || skip "the trainer library was not built"
command -v patchelf >/dev/null || skip "no patchelf"
{ python3 -m venv --help && python3 -m pip --version; } >/dev/null 2>&1 || skip "no pip"
torch=$(sed -n 's/^GANTRAIN_TORCH_CPU:[A-Z]*=\(.*\)\/libtorch_cpu.so$/\1/p' "$build/CMakeCache.txt")
[ -e "$torch/libtorch_cpu.so" ] || skip "LibTorch is not a folder of libraries"
chmod 755 "$tmp"

wheel=$("$root/scripts/package.sh" wheel --build "$build" -o "$tmp/packages" | tail -n 1)
expect "one file, named by its version and platform" \
  "gantrain-$("$1" --version | cut -d' ' -f2)-py3-none-manylinux_2_N_x86_64.whl" \
  "$(sed -E 's/manylinux_2_[0-9]+/manylinux_2_N/' <<<"${wheel##*/}")"
expect "nothing else is left" "${wheel##*/}" "$(ls -A "$tmp/packages")"

# --- its contents
mkdir "$tmp/unpacked"
python3 -m zipfile -e "$wheel" "$tmp/unpacked"
newest() { # newest NAME: the newest version of that name that any file of the wheel asks for
  find "$tmp/unpacked" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec readelf -V --wide {} + 2>/dev/null |
    grep -o "Name: $1_[0-9.]*" | sed "s/.*$1_//" | sort -uV | tail -n 1
}
expect "its platform is the newest C library that is asked for" "manylinux_2_$(newest GLIBC | cut -d. -f2)" \
  "$(grep -o 'manylinux_2_[0-9]*' <<<"${wheel##*/}")"
# What Debian 12 compiles runs on RHEL 9 and Ubuntu 22.04: glibc 2.34, libstdc++ of GCC 11.
if [ "$(. /etc/os-release && echo "$ID $VERSION_ID")" = "debian 12" ]; then
  expect "no newer C library is needed than that of RHEL 9" "2.34" "$(printf '%s\n' 2.34 "$(newest GLIBC)" | sort -V | tail -n 1)"
  expect "no newer C++ library, either" "3.4.29" "$(printf '%s\n' 3.4.29 "$(newest GLIBCXX)" | sort -V | tail -n 1)"
  expect "at most 14 MB" yes "$( (($(stat -c %s "$wheel") <= 14000000)) && echo yes)"
fi
rm -r "$tmp/unpacked"
python3 - "$wheel" <<'PY'
import base64, hashlib, re, sys, zipfile

archive = zipfile.ZipFile(sys.argv[1])
names = archive.namelist()
info = next(n for n in names if n.endswith("/RECORD")).rsplit("/", 1)[0]
rows = [line.rsplit(",", 2) for line in archive.read(f"{info}/RECORD").decode().splitlines()]
assert [row[0] for row in rows] == names, "RECORD lists every member in its order"
for name, digest, size in rows[:-1]:
    content = archive.read(name)
    wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    assert digest == f"sha256={wanted}" and int(size) == len(content), name
metadata = archive.read(f"{info}/METADATA").decode()
assert re.search(r"^Requires-Dist: torch==2\.11\.0$", metadata, re.M)
assert len({i.date_time for i in archive.infolist()}) == 1, "one time for all members"
assert not any("torch" in n and n.endswith(".so") for n in names), "LibTorch is not inside"
assert any("libpng16" in n for n in names) and f"{info}/licenses/LICENSE" in names
for package in ("libarchive", "libzip", "libpng16-16", "zlib1g", "libbz2-1.0", "liblzma5", "libcli11-dev", "libcpp-httplib-dev"):
    assert f"{info}/licenses/{package}.txt" in names, package
for library in ("icu", "xml2", "ssl", "crypto", "brotli", "nettle"):
    assert not any(f"/lib{library}" in n and ".so" in n for n in names), library
PY

# --- an environment that has it
python3 -m venv --without-pip "$tmp/venv"
python3 -m pip --python "$tmp/venv/bin/python" install -q --disable-pip-version-check --no-index --no-deps "$wheel" </dev/null
site=$(echo "$tmp"/venv/lib/python3*/site-packages)
[ -d "$site/gantrain" ]
gantrain=$tmp/venv/bin/gantrain
expect "it tells its version without PyTorch" "$("$1" --version)" "$("$gantrain" --version)"
expect "and what commands there are" gantrain "$("$gantrain" | head -n 1 | cut -d' ' -f1)"
code=0; said=$("$gantrain" --smoke 2>&1) || code=$?
expect "without PyTorch it says what to install" "4 pip install torch==2.11.0" \
  "$code $(grep -o 'pip install torch==2.11.0' <<<"$said")"
code=0
said=$("$tmp/venv/bin/python" -c 'import os, sys, gantrain.__main__ as start
os.confstr = lambda name: "glibc 2.31"
sys.exit(start.main())' 2>&1) || code=$?
expect "an older C library is named beside the one that is needed" "4 error: gantrain needs glibc 2. and this system has 2.31" \
  "$code $(sed -E 's/(glibc 2\.)[0-9]+ or newer,/\1/; s/(2\.31).*/\1/' <<<"$said")"
mkdir -p "$site/torch/lib"
echo "__version__ = '2.10.0+cpu'" >"$site/torch/version.py"
cp "$site/torch/version.py" "$site/torch/lib/libtorch_cpu.so" # found, but of another version
code=0; said=$("$gantrain" --smoke 2>&1) || code=$?
expect "of another PyTorch it names the version" "4 there is PyTorch 2.10.0" \
  "$code $(grep -o 'there is PyTorch 2.10.0' <<<"$said")"
expect "what computes nothing goes without" "0 of 1 $("$1" --version)" \
  "$("$gantrain" launch --nproc 1 -- sh -c 'echo $RANK of $WORLD_SIZE') $("$gantrain" -V)"
code=0; said=$("$gantrain" report "$tmp/nowhere" 2>&1) || code=$?
expect "a page of a run, too" "" "$(grep PyTorch <<<"$said" || true)"
echo "__version__ = '2.11.0+cu130'" >"$site/torch/version.py"
rm "$site/torch/lib/libtorch_cpu.so"
code=0; said=$(GANTRAIN_TORCH_LIB=$tmp/nowhere "$gantrain" --smoke 2>&1) || code=$?
expect "a folder of the user's without libraries" "4 GANTRAIN_TORCH_LIB=$tmp/nowhere: there is no libc10.so" \
  "$code $(grep -o 'GANTRAIN_TORCH_LIB=.*libc10.so' <<<"$said" | head -n 1)"
expect "completions and manual pages are in the environment" "gantrain gantrain.1" \
  "$(cd "$tmp/venv/share" && echo "$(ls bash-completion/completions) $(cd man/man1 && ls gantrain.1)")"

if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
  skip "the wheel was checked; running it as another user takes root and a mount namespace"
fi
mkdir "$tmp/empty" "$tmp/home" "$tmp/elsewhere"
chmod 755 "$tmp/home"
chown 65534:65534 "$tmp/home"
cat >"$tmp/as_nobody.sh" <<'END'
set -euo pipefail
tmp=$1 site=$2 torch=$3 prefix=$4
mount --bind "$torch" "$site/torch/lib"
for folder in "${@:5}"; do mount --bind "$tmp/empty" "$folder"; done
mkdir "$tmp/python" "$tmp/libraries"
mount --bind "$prefix" "$tmp/python"
mount --bind "$torch" "$tmp/libraries"
torch=$tmp/libraries
# A Python in somebody's closed home folder: an open folder with this Python alone stands for the home.
closed='' folder=$prefix
while [ "$folder" != / ]; do
  setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$folder" || closed=$folder
  folder=$(dirname "$folder")
done
if [ -n "$closed" ]; then
  mount -t tmpfs -o mode=755 none "$closed"
  mkdir -p "$prefix"
  mount --bind "$tmp/python" "$prefix"
fi
cd "$tmp/home"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups env -i HOME="$tmp/home" PATH="$tmp/venv/bin:/usr/bin:/bin" "$@"; }
as_nobody ldd "$site/gantrain/bin/gantrain" "$site"/gantrain/lib/libgantrain_{trainer,serve}.so | grep -v "$tmp" || true
as_nobody gantrain --smoke
as_nobody gantrain generate --model runs/latest --seeds 0-3 -o grid.png
as_nobody python3 -m gantrain --version
# PyTorch elsewhere than beside it, as in an environment over the system's packages: by a .pth file.
mv "$site/torch/version.py" "$tmp/version.py"
umount "$site/torch/lib"
rm -r "$site/torch"
mkdir -p "$tmp/elsewhere/torch/lib"
mv "$tmp/version.py" "$tmp/elsewhere/torch/"
touch "$tmp/elsewhere/torch/__init__.py"
mount --bind "$torch" "$tmp/elsewhere/torch/lib"
echo "$tmp/elsewhere" >"$site/elsewhere.pth"
as_nobody gantrain generate --model runs/latest --seeds 0-3 -o again.png
cmp grid.png again.png
END
hidden=("$build")
for folder in /usr/local/cuda*; do
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then hidden+=("$folder"); fi
done
code=0
unshare -m bash "$tmp/as_nobody.sh" "$tmp" "$site" "$torch" \
  "$(python3 -c 'import sys; print(sys.base_prefix)')" "${hidden[@]}" >"$tmp/said" 2>&1 || code=$?
expect "it trains and draws as another user" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
expect "the next command is said as it is typed" "next    gantrain generate" \
  "$(grep -o 'next    gantrain generate' "$tmp/said" | head -n 1)"
# Libraries of this system that the wheel may use: those that PyTorch's own wheel asks for.
expect "all else comes with the wheel or with PyTorch" "" \
  "$(grep '=>' "$tmp/said" | awk '{print $1}' | grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|util)|ld-linux.*)\.so' | sort -u)"
