#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package: installed by dpkg over a copy of this system, it runs as another user where
# neither the build folder nor LibTorch's is. With GANTRAIN_DEBOOTSTRAP=MIRROR, as a root that has
# debootstrap, it is installed by apt into a Debian 12 made for it, which has nothing else.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
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
for package in libc6 libpng16 libarchive13 libfmt9 libcpp-httplib0.11; do
  expect "it depends on $package" "$package" "$(grep -o "\b$package\b" <<<"$depends" | head -n 1)"
done
dpkg-deb --contents "$deb" >"$tmp/contents"
for file in usr/bin/gantrain usr/share/man/man1/gantrain-data-pack.1.gz usr/share/doc/gantrain/copyright \
  usr/share/bash-completion/completions/gantrain usr/share/zsh/vendor-completions/_gantrain; do
  expect "it has $file" "1" "$(grep -c "\./$file\( \|\$\)" "$tmp/contents")"
done
expect "all files belong to root" "root/root" "$(awk '{print $2}' "$tmp/contents" | sort -u)"

if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
  skip "the package was checked; installing it takes root and a mount namespace"
fi
cat >"$tmp/installed.sh" <<'END'
set -euo pipefail
tmp=$1 deb=$2 lower=$3
mount -t tmpfs none "$tmp/over"
mkdir "$tmp/over/upper" "$tmp/over/work" "$tmp/over/root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$tmp/over/upper,workdir=$tmp/over/work" "$tmp/over/root" ||
  { echo "no overlay"; exit 77; }
new=$tmp/over/root
mount -t proc proc "$new/proc"
mount --rbind /dev "$new/dev"
mkdir -p "$new/tmp/empty" "$new/var/empty-home"
for folder in "${@:4}"; do mount --bind "$new/tmp/empty" "$new$folder"; done
cp "$deb" "$new/var/gantrain.deb"
if [ "$lower" = / ]; then
  chroot "$new" dpkg -i /var/gantrain.deb
else
  cp /etc/resolv.conf "$new/etc/"
  chroot "$new" apt-get -qq update
  chroot "$new" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends /var/gantrain.deb
fi
rm "$new/var/gantrain.deb"
chown 65534:65534 "$new/var/empty-home"
as_nobody() {
  chroot "$new" setpriv --reuid 65534 --regid 65534 --clear-groups \
    env -i HOME=/var/empty-home PATH=/usr/bin:/bin sh -c "cd /var/empty-home && $1"
}
as_nobody "gantrain --smoke"
as_nobody "gantrain generate --model runs/latest --seeds 0-3 -o grid.png"
chroot "$new" dpkg --remove gantrain
[ ! -e "$new/usr/bin/gantrain" ] && [ ! -e "$new/usr/lib/gantrain" ]
END
mkdir "$tmp/over" "$tmp/debian"
lower=/ hidden=("$build" "$torch")
for folder in /usr/local/cuda*; do
  if [ -d "$folder" ] && [ ! -L "$folder" ]; then hidden+=("$folder"); fi
done
if [ -n "${GANTRAIN_DEBOOTSTRAP:-}" ]; then
  command -v debootstrap >/dev/null || skip "no debootstrap"
  debootstrap --variant=minbase bookworm "$tmp/debian" "$GANTRAIN_DEBOOTSTRAP" >"$tmp/said" ||
    expect "a Debian to install into" "" "$(tail -n 5 "$tmp/said")"
  lower=$tmp/debian hidden=()
fi
code=0
unshare -m bash "$tmp/installed.sh" "$tmp" "$deb" "$lower" "${hidden[@]}" >"$tmp/said" 2>&1 || code=$?
[ "$code" != 77 ] || skip "the package was checked; installing it takes an overlay file system"
expect "it is installed, trains and draws as another user, and goes" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
