#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package: installed by dpkg into minimal Debian 12 and 13, which have nothing else, it trains and draws as
# another user. These are made once by debootstrap, as root, and kept in the cache.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"
[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$(realpath "$1")")
[ -e "$build/libgantrain_trainer.so" ] || skip "the trainer library was not built"
for tool in patchelf dpkg-shlibdeps dpkg-deb; do
  command -v "$tool" >/dev/null || skip "no $tool"
done
torch=$(sed -n 's/^GANTRAIN_TORCH_CPU:[A-Z]*=\(.*\)\/libtorch_cpu.so$/\1/p' "$build/CMakeCache.txt")
[ -e "$torch/libtorch_cpu.so" ] || skip "LibTorch is not a folder of libraries"
chmod 755 "$tmp"

deb=$("$root/scripts/package.sh" deb --build "$build" -o "$tmp/packages" | tail -n 1)
expect "one file" "gantrain_$("$1" --version | cut -d' ' -f2)_amd64.deb" "$(ls -A "$tmp/packages")"
depends=$(dpkg-deb --field "$deb" Depends)
expect "it needs the C library and the compiler's two" "libc6 libgcc-s1 libstdc++6" \
  "$(tr ',' '\n' <<<"$depends" | awk '{print $1}' | sort | xargs)"
dpkg-deb --contents "$deb" >"$tmp/contents"
for file in usr/bin/gantrain usr/share/man/man1/gantrain-data-pack.1.gz usr/share/doc/gantrain/copyright \
  usr/share/bash-completion/completions/gantrain usr/share/zsh/vendor-completions/_gantrain; do
  expect "it has $file" "1" "$(grep -c "\./$file\( \|\$\)" "$tmp/contents")"
done
expect "all files belong to root" "root/root" "$(awk '{print $2}' "$tmp/contents" | sort -u)"

for name in libarchive libpng16-16 zlib1g libbz2-1.0 liblzma5 libcli11-dev; do
  expect "it has the licence of $name" "1" "$(grep -c "/usr/share/doc/gantrain/$name.txt" "$tmp/contents")"
done

if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
  skip "the package was checked; installing it takes root and a mount namespace"
fi
{ echo "$OVER"; cat <<'END'; } >"$tmp/installed.sh"
set -euo pipefail
tmp=$1 deb=$2
over "$3" "$tmp/over"
new=$tmp/over/root
cp "$deb" "$new/var/gantrain.deb"
chroot "$new" dpkg -i /var/gantrain.deb
rm "$new/var/gantrain.deb"
mkdir "$new/var/home"
chown 65534:65534 "$new/var/home"
as_user "$new" 65534 /var/home sh -c "cd /var/home && gantrain --smoke &&
  gantrain generate --model runs/latest --seeds 0-3 -o grid.png"
chroot "$new" dpkg --remove gantrain
[ ! -e "$new/usr/bin/gantrain" ] && [ ! -e "$new/usr/lib/gantrain" ]
END
mkdir "$tmp/over"
tried='' reasons=''
for suite in bookworm trixie; do
  debian_root "$suite"
  if [ -z "$debian" ]; then
    reasons+="; $no_debian"
    continue
  fi
  code=0
  unshare -m bash "$tmp/installed.sh" "$tmp" "$deb" "$debian" >"$tmp/said" 2>&1 || code=$?
  if [ "$code" = 77 ]; then
    reasons+="; an overlay file system cannot be mounted"
    continue
  fi
  expect "on $suite it is installed, trains and draws as another user, and goes" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
  digests=${digests:-$(smoke_digest "$tmp/said")}
  expect "on $suite as on the first" "$digests" "$(smoke_digest "$tmp/said")"
  tried+=" $suite"
done
[ -z "$reasons" ] || skip "installed on:${tried:- none}${reasons}"
