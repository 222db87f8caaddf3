#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source in another system's root: its g++, CMake, Catch2 and libraries. As root, since that makes it.
#   system_test.sh GANTRAIN trixie|jammy|noble
# Compiles the program, whose smoke job must end with the weights of GANTRAIN's, and the modules without LibTorch with
# their tests, and passes these. The root is kept in the cache (1.5 GB), what was compiled in GANTRAIN's build folder.
. "$(dirname "${BASH_SOURCE[0]}")/other_system.sh"
build=$(dirname "${1:?}") suite=${2:?}
need_room 6

packages=("${BUILD_PACKAGES[@]}" "${TEST_BUILD_PACKAGES[@]}")
system=$GANTRAIN_CACHE_DIR/$suite-$(sha256sum <<<"${packages[*]}" | head -c 12)
debian() { debootstrap --variant=minbase "$suite" "$1"; }
ubuntu() {
  local mirror=http://archive.ubuntu.com/ubuntu script=/usr/share/debootstrap/scripts/$suite
  [ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy # what those of later releases are links to
  # The keys that its packages are signed with; Debian has no package of them.
  python3 -c 'import sys, urllib.request; open(sys.argv[2], "wb").write(urllib.request.urlopen(sys.argv[1], timeout=60).read())' \
    "$mirror/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb" "$tmp/keys.deb" &&
    sha256sum --status -c - <<<"0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f  $tmp/keys.deb" &&
    dpkg-deb -x "$tmp/keys.deb" "$tmp/keys" &&
    debootstrap --variant=minbase --components=main,universe --keyring="$tmp/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg" \
      "$suite" "$1" "$mirror" "$script"
}
case $suite in jammy | noble) family=ubuntu ;; *) family=debian ;; esac
with_build_packages() { # with_build_packages FOLDER
  "$family" "$1" &&
    cp /etc/resolv.conf "$1/etc/" &&
    chroot "$1" apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get -qq install -y --no-install-recommends "${packages[@]}" &&
    chroot "$1" apt-get clean
}
with_lock make_once "$system" with_build_packages

# inside COMMAND: in the root, with the checkout and LibTorch to read and a build folder of its own. The mounts are in a
# namespace of their own and end with it, however that ends; the root's /dev is its own, too.
inside() {
  mkdir -p "$build/$suite" "$GANTRAIN_CACHE_DIR/$suite-ccache" "$system"/{src,libtorch,build,ccache}
  unshare --mount bash -euc '
    mount --bind "$2" "$1/src" && mount -o remount,bind,ro "$1/src"
    mount --bind "$3" "$1/libtorch" && mount -o remount,bind,ro "$1/libtorch"
    mount --bind "$4" "$1/build"
    mount --bind "$5" "$1/ccache"
    mount -t proc proc "$1/proc" 2>/dev/null || mount --bind /proc "$1/proc"
    mount -t devpts -o ptmxmode=0666 devpts "$1/dev/pts" # terminals of its own
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/tmp"
    cp /etc/hosts "$1/etc/" # this machine has its name in there
    exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CCACHE_DIR=/ccache bash -euc "$6"
  ' _ "$system" "$root" "$LIBTORCH" "$build/$suite" "$GANTRAIN_CACHE_DIR/$suite-ccache" "$1" </dev/null >"$tmp/log" 2>&1
}
jobs=$(nproc); jobs=$((jobs > 2 ? 2 : jobs))
configure='cd /build; [ -e build.ninja ] || cmake -S /src -B . -G Ninja -DCMAKE_PREFIX_PATH=/libtorch -DGANTRAIN_CUDA=OFF'
tests=(util config launch image page serve cpu_kernels ddp_plan layers)
passed="ctest -j $jobs --output-on-failure --no-tests=error -R '^($(IFS='|'; echo "${tests[*]}"))(/|\$)'"

inside "$configure; ninja -j $jobs gantrain_program ${tests[*]/#/test_}" || { errors_of "$tmp/log" >&2; exit 1; }
inside '/build/gantrain --smoke' || { tail -n 20 "$tmp/log" >&2; exit 1; }
there=$(grep 'SMOKE OK' "$tmp/log")
"$1" --smoke >"$tmp/here" 2>&1 || { tail -n 20 "$tmp/here" >&2; exit 1; }
expect "the smoke job's weights are this system's" "$(grep 'SMOKE OK' "$tmp/here")" "$there"
inside "cd /build; $passed" || { tail -n 60 "$tmp/log" >&2; exit 1; }
grep 'tests passed' "$tmp/log"
