#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is carried to machines without this checkout:  scripts/package.sh wheel|deb|tree|image|rootfs [options]
#
#   wheel   gantrain-VERSION-py3-none-manylinux_*.whl: the program; LibTorch comes with torch==2.11.0
#   deb     gantrain_VERSION_amd64.deb: the program with LibTorch's CPU libraries
#   tree    gantrain-VERSION-linux-x86_64.tar.gz: a folder that runs from anywhere
#   image   gantrain-VERSION-image.tar: an OCI archive, made without a container program; CPU alone
#   rootfs  gantrain-VERSION-rootfs: what the image holds, as a folder, for scripts/package/Containerfile
#
#   -o DIR        where to (build/packages)
#   --build DIR   a build folder as it is; else a release build is made first, as GANTRAIN_CUDA says
#   --cuda        deb and tree: the GPU side and CUDA's libraries, too (3 GB more). A wheel has the GPU
#                 side where it was built: GANTRAIN_CUDA=ON; CUDA's libraries come with torch.
#
# The last line on standard output is the package's path.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() { die 2 "usage: scripts/package.sh wheel|deb|tree|image|rootfs [-o DIR] [--build DIR] [--cuda]"; }

kind=${1:-}
case $kind in wheel | deb | tree | image | rootfs) shift ;; *) usage ;; esac
out='' build='' cuda=''
while (($#)); do
  case $1 in
    -o) out=${2:-} ;;
    --build) build=${2:-} ;;
    --cuda) cuda=1; shift; continue ;;
    *) usage ;;
  esac
  [ -n "${2:-}" ] || usage
  shift 2
done

case $kind in image | rootfs) [ -z "$cuda" ] || die 2 "--cuda: an image with CUDA is made of the wheel, by scripts/package/Containerfile.cuda" ;; esac

# The packages say so, and the licences are those of that wheel.
[ "$MACHINE" = x86_64 ] || die 4 "packages are made on x86-64 alone; on $MACHINE scripts/build.sh makes the program"
need_packages patchelf binutils
[ "$kind" != deb ] || need_packages dpkg-dev
if [ -z "$build" ]; then
  build=$GANTRAIN_ROOT/build
  [ -z "$cuda" ] || export GANTRAIN_CUDA=ON
  "$GANTRAIN_ROOT/scripts/build.sh" release gantrain_program >&2
fi
for file in gantrain libgantrain_trainer.so libgantrain_serve.so ${cuda:+libgantrain_cuda.so}; do
  [ -e "$build/$file" ] || die 4 "$build has no $file: ${cuda:+GANTRAIN_CUDA=ON }scripts/build.sh release makes it"
done
version=$("$build/gantrain" --version)
version=${version#gantrain }
out=${out:-$build/packages}
mkdir -p "$out" || die 8 "$out cannot be written"
out=$(cd "$out" && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$GANTRAIN_ROOT" log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH
stage=$(mktemp -d "$out/.stage-XXXXXX") || die 8 "$out cannot be written"
trap 'rm -rf "$stage"' EXIT
umask 022
chmod 755 "$stage"

setup_slim_libraries # sets `slim`
. "$GANTRAIN_ROOT/scripts/package/libraries.sh"
. "$GANTRAIN_ROOT/scripts/package/image.sh"

readonly OUR_LIBRARIES=(libgantrain_trainer.so libgantrain_serve.so)

# bundle_for LIBRARIES LICENSES: what our programs need of this system.
bundle_for() { bundle "$1" "$2" "$build/gantrain" "${OUR_LIBRARIES[@]/#/$build/}"; }

# oldest_glibc FOLDER: the version of the C library that the programs in it were linked for.
oldest_glibc() { newest_symbol "$1" GLIBC | cut -d_ -f2; }

# place_program PREFIX: the program, our libraries and the scripts that bench calls.
place_program() {
  install -D -m 755 "$build/gantrain" "$1/bin/gantrain"
  install -D -m 644 "$build/libgantrain_trainer.so" "$1/lib/libgantrain_trainer.so"
  install -D -m 644 "$build/libgantrain_serve.so" "$1/lib/libgantrain_serve.so"
  [ ! -e "$build/libgantrain_cuda.so" ] || install -D -m 644 "$build/libgantrain_cuda.so" "$1/lib/libgantrain_cuda.so"
  strip --strip-unneeded "$1/bin/gantrain" "$1"/lib/*.so
  place_peers "$1"
}

place_peers() {
  local file
  for file in "$GANTRAIN_ROOT"/scripts/peers/*.py; do
    install -D -m 644 "$file" "$1/scripts/peers/${file##*/}"
  done
}

make_wheel() {
  local package=$stage/gantrain torch=\$ORIGIN/../../torch/lib part rpath glibc
  install -D -m 644 -t "$package" "$GANTRAIN_ROOT"/scripts/package/gantrain/*.py
  place_program "$package"
  bundle_for "$package/lib/gantrain" "$stage/licenses"
  install -m 644 "$GANTRAIN_ROOT/LICENSE" "$stage/licenses/LICENSE"
  rpath=\$ORIGIN/gantrain:$torch
  for part in cu13 cudnn nccl cusparselt nvshmem; do rpath+=:\$ORIGIN/../../nvidia/$part/lib; done
  for part in "$package"/lib/*.so; do patchelf --set-rpath "$rpath" "$part"; done
  # shellcheck disable=SC2016 # the loader replaces it
  patchelf --set-rpath '$ORIGIN/../lib/gantrain' "$package/bin/gantrain"
  "$build/gantrain" help --install "$stage"
  glibc=$(oldest_glibc "$package")
  sed -i "s/^GLIBC = .*/GLIBC = \"$glibc\"/" "$package/__main__.py"
  python3 "$GANTRAIN_ROOT/scripts/package/make_wheel.py" \
    "$stage" "$out" "$version" "$glibc" "$GANTRAIN_ROOT/README.md"
}

# torch_licenses FOLDER: those of LibTorch and of what is inside it, from the wheel that it came from.
torch_licenses() {
  local wheel=$GANTRAIN_CACHE_DIR/wheels/torch-$TORCH_VERSION-cp311-cp311-manylinux_2_28_x86_64.whl
  if [ -e "$wheel" ]; then
    unpack "$wheel" "$1/libtorch" 2 'torch-*.dist-info/licenses/*'
  else
    say "the licences of LibTorch are not in the package: $wheel is not there"
  fi
}

# place_tree PREFIX LICENSES: what cmake --install places, less the symbols of our own programs, and what these need of
# this system.
place_tree() {
  cmake --install "$build" --component cpu --prefix "$1" >/dev/null
  [ -z "$cuda" ] || cmake --install "$build" --component cuda --prefix "$1" >/dev/null
  strip --strip-unneeded "$1/bin/gantrain" "$1"/lib/*.so
  place_peers "$1"
  bundle_for "$1/lib/gantrain" "$2"
  torch_licenses "$2"
  # shellcheck disable=SC2016 # the loader replaces it
  patchelf --set-rpath '$ORIGIN/../lib/gantrain' "$1/bin/gantrain"
  sh "$GANTRAIN_ROOT/scripts/package/append_python.sh" "$1/bin/gantrain"
}

make_tree() {
  local name=gantrain-$version-linux-x86_64 tree part
  tree=$stage/$name
  place_tree "$tree" "$tree/share/doc/gantrain"
  install -m 644 "$GANTRAIN_ROOT/LICENSE" "$GANTRAIN_ROOT/README.md" "$tree/share/doc/gantrain/"
  part=$out/.$name.part
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
    gzip -n -1 >"$part"
  mv "$part" "$out/$name.tar.gz"
  echo "$out/$name.tar.gz"
}

# debian_depends PREFIX: what dpkg-shlibdeps says that the programs and what is bundled with them need: the C library and
# the compiler's two.
debian_depends() {
  local work=$stage/shlibdeps file files=()
  mkdir -p "$work/debian"
  printf 'Source: gantrain\n\nPackage: gantrain\nArchitecture: amd64\n' >"$work/debian/control"
  for file in "$1/bin/gantrain" "$1"/lib/*.so "$1"/lib/gantrain/*.so*; do
    case ${file##*/} in lib[cn][uv]* | libnccl*) ;; *) files+=("-e$file") ;; esac # CUDA's: the C library alone
  done
  (cd "$work" && dpkg-shlibdeps -O --ignore-missing-info --warnings=0 "-l$1/lib/gantrain" "${files[@]}" 2>/dev/null) |
    sed -n 's/^shlibs:Depends=//p'
}

make_deb() {
  local root=$stage/root depends file=$out/gantrain_${version}_amd64.deb page
  place_tree "$root/usr/lib/gantrain" "$root/usr/share/doc/gantrain"
  mkdir -p "$root/usr/bin" "$root/usr/share/zsh" "$root/usr/share/doc/gantrain" "$root/DEBIAN"
  ln -s ../lib/gantrain/bin/gantrain "$root/usr/bin/gantrain"
  rm -rf "$root/usr/lib/gantrain/share"
  "$build/gantrain" help --install "$root/usr"
  mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
  for page in "$root"/usr/share/man/man1/*.1; do gzip -n -9 "$page"; done
  { echo "Licence of gantrain:"; cat "$GANTRAIN_ROOT/LICENSE"; } >"$root/usr/share/doc/gantrain/copyright"
  depends=$(debian_depends "$root/usr/lib/gantrain")
  [ -n "$depends" ] || die 1 "dpkg-shlibdeps found no package that the programs need"
  cat >"$root/DEBIAN/control" <<END
Package: gantrain
Version: $version
Architecture: amd64
Section: science
Priority: optional
Maintainer: gantrain authors <gantrain@invalid>
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Depends: $depends
Description: trains GANs on one to many devices
 One program that starts one process per device, trains, survives what clusters
 do to jobs, and leaves pictures, curves and weights. LibTorch is inside${cuda:+ with CUDA}.
END
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zzstd -z3 --build "$root" "$stage/package.deb" >/dev/null
  mv "$stage/package.deb" "$file"
  echo "$file"
}

"make_$kind"
