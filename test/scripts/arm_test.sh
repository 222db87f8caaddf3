#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The modules without LibTorch, compiled for aarch64, and their tests, run by qemu's user mode. The libraries are this
# Debian's for arm64, unpacked and never run by themselves; they are kept in the cache (250 MB), what was compiled in
# GANTRAIN's build folder.
#   arm_test.sh GANTRAIN
. "$(dirname "${BASH_SOURCE[0]}")/other_system.sh"
build=$(dirname "${1:?}")/arm
[ "$MACHINE" != aarch64 ] || skip "this machine is aarch64 itself"
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null || skip "no $tool"
done
[ "$(. /etc/os-release && echo "$ID")" = debian ] || skip "the libraries for arm64 are taken from Debian's own archive"
need_room 2

packages=libfmt-dev,nlohmann-json3-dev,libcli11-dev,catch2,libpng-dev,zlib1g-dev,libturbojpeg0-dev,libwebp-dev,libzip-dev
packages+=,libarchive-dev,liblmdb-dev,libxxhash-dev,libcpp-httplib-dev,libgloo-dev
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
libraries=$GANTRAIN_CACHE_DIR/arm64-$(sha256sum <<<"$suite $packages" | head -c 12)
unpacked() { # unpacked FOLDER
  local deb
  debootstrap --download-only --arch=arm64 --variant=minbase --include="$packages" "$suite" "$tmp/debs" || return
  mkdir -p "$1"
  for deb in "$tmp"/debs/var/cache/apt/archives/*.deb; do dpkg -x "$deb" "$1" || return; done
}
with_lock make_once "$libraries" unpacked

export PKG_CONFIG_LIBDIR=$libraries/usr/lib/aarch64-linux-gnu/pkgconfig:$libraries/usr/share/pkgconfig
export PKG_CONFIG_SYSROOT_DIR=$libraries
# LibTorch's headers are the same for both machines; of its libraries nothing is linked here.
[ -e "$build/build.ninja" ] || cmake -S "$root" -B "$build" -G Ninja -DGANTRAIN_CUDA=OFF -DCMAKE_SYSTEM_NAME=Linux \
  -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ "-DCMAKE_FIND_ROOT_PATH=$libraries" \
  -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER "-DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64;-L;$libraries" \
  "-DCMAKE_CXX_FLAGS=-idirafter $libraries/usr/include/aarch64-linux-gnu" \
  "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,$libraries/usr/lib/aarch64-linux-gnu:$libraries/lib/aarch64-linux-gnu" \
  "-DGANTRAIN_TORCH_INCLUDE=$LIBTORCH/include" "-DGANTRAIN_TORCH_CPU=$LIBTORCH/lib/libtorch_cpu.so" \
  "-DGANTRAIN_C10=$LIBTORCH/lib/libc10.so" "-DGANTRAIN_GOMP=$LIBTORCH/lib/libgomp.so.1" \
  >"$tmp/log" 2>&1 || { tail -n 20 "$tmp/log" >&2; exit 1; }

# Not launch, whose tests look at trees of processes, which are qemu's here; nor the test that measures a process's memory,
# in which qemu's own is counted.
measured='image/VerifyingAPngTakesMemoryForOneRow$'
tests=(util config image page serve cpu_kernels ddp_plan layers)
ninja -C "$build" -j2 "${tests[@]/#/test_}" >"$tmp/log" 2>&1 || { errors_of "$tmp/log" >&2; exit 1; }
ctest --test-dir "$build" -j2 --output-on-failure --no-tests=error -R "^($(IFS='|'; echo "${tests[*]}"))(/|\$)" -E "$measured" >"$tmp/log" 2>&1 </dev/null ||
  { tail -n 60 "$tmp/log" >&2; exit 1; }
grep 'tests passed' "$tmp/log"
