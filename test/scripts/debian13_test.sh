#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source in a Debian 13 root: g++ 14, CMake 3.31, Catch2 3, cpp-httplib 0.18. As root, since that makes it.
#   debian13_test.sh GANTRAIN         the modules without LibTorch, and their tests
#   debian13_test.sh GANTRAIN whole   the program; its smoke digest is that of GANTRAIN
# The root is kept in the cache (1.5 GB), what was compiled in GANTRAIN's build folder.
. "$(dirname "${BASH_SOURCE[0]}")/other_system.sh"
build=$(dirname "${1:?}")
need_room 6

packages=("${BUILD_PACKAGES[@]}" "${TEST_BUILD_PACKAGES[@]}")
system=$GANTRAIN_CACHE_DIR/debian13-$(sha256sum <<<"${packages[*]}" | head -c 12)
debian13() { # debian13 FOLDER
  debootstrap --variant=minbase trixie "$1" &&
    cp /etc/resolv.conf "$1/etc/" &&
    chroot "$1" apt-get -qq update &&
    DEBIAN_FRONTEND=noninteractive chroot "$1" apt-get -qq install -y --no-install-recommends "${packages[@]}" &&
    chroot "$1" apt-get clean
}
with_lock make_once "$system" debian13

# inside COMMAND: in the root, with the checkout and LibTorch to read and a build folder of its own. The mounts are in a
# namespace of their own and end with it, however that ends; the root's /dev is its own, too.
inside() {
  mkdir -p "$build/debian13" "$GANTRAIN_CACHE_DIR/debian13-ccache" "$system"/{src,libtorch,build,ccache}
  unshare --mount bash -euc '
    mount --bind "$2" "$1/src" && mount -o remount,bind,ro "$1/src"
    mount --bind "$3" "$1/libtorch" && mount -o remount,bind,ro "$1/libtorch"
    mount --bind "$4" "$1/build"
    mount --bind "$5" "$1/ccache"
    mount -t proc proc "$1/proc" 2>/dev/null || mount --bind /proc "$1/proc"
    mount -t devpts -o ptmxmode=0666 devpts "$1/dev/pts" # terminals of its own
    mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/tmp"
    exec chroot "$1" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 CCACHE_DIR=/ccache bash -euc "$6"
  ' _ "$system" "$root" "$LIBTORCH" "$build/debian13" "$GANTRAIN_CACHE_DIR/debian13-ccache" "$1" </dev/null >"$tmp/log" 2>&1
}
configure='cd /build; [ -e build.ninja ] || cmake -S /src -B . -G Ninja -DCMAKE_PREFIX_PATH=/libtorch -DGANTRAIN_CUDA=OFF'
jobs=$(nproc); jobs=$((jobs > 2 ? 2 : jobs))

if [ "${2:-}" = whole ]; then
  inside "$configure; ninja -j $jobs gantrain_program" || { errors_of "$tmp/log" >&2; exit 1; }
  inside '/build/gantrain --smoke' || { tail -n 20 "$tmp/log" >&2; exit 1; }
  "$1" --smoke >"$tmp/here" 2>&1 || { tail -n 20 "$tmp/here" >&2; exit 1; }
  expect "the smoke job's weights are this system's" "$(grep 'SMOKE OK' "$tmp/here")" "$(grep 'SMOKE OK' "$tmp/log")"
  exit
fi
tests=(util config launch image page serve cpu_kernels ddp_plan layers)
inside "$configure; ninja -j $jobs ${tests[*]/#/test_}" || { errors_of "$tmp/log" >&2; exit 1; }
inside "cd /build; ctest -j $jobs --output-on-failure --no-tests=error -R '^($(IFS='|'; echo "${tests[*]}"))(/|\$)'" || { tail -n 60 "$tmp/log" >&2; exit 1; }
grep 'tests passed' "$tmp/log"
