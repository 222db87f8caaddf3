# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The root of an image: the program with LibTorch's CPU side and, of this system, the C and C++ libraries and a shell;
# sourced by package.sh, whose functions it calls. In two layers: what changes rarely, and the program.

# place_system_library ROOT FILE: under the name that the loader looks for, with its licence.
place_system_library() {
  local place=usr/lib/x86_64-linux-gnu
  [[ $2 != */ld-linux* ]] || place=usr/lib64
  [ -e "$1/$place/${2##*/}" ] || install -D -m 755 "$2" "$1/$place/${2##*/}"
  place_license "$1/usr/share/doc/gantrain" "$(package_of "$2")"
}

# loaded_libraries ROOT FILE...: those that these files load from outside of the root, one path a line.
loaded_libraries() {
  LD_LIBRARY_PATH='' ldd "${@:2}" 2>/dev/null |
    sed -n 's/^[[:space:]]*\(.* => \)\?\(\/[^ ]*\) (0x.*/\2/p' | grep -v "^$1/" | sort -u
}

# Files and folders that programs and container runtimes look for; a runtime can make none where the root is read-only.
place_etc() {
  local root=$1 folder
  for folder in dev etc proc run sys usr/bin usr/lib64 var; do mkdir -p "$root/$folder"; done
  for folder in tmp var/tmp runs; do
    mkdir -p "$root/$folder"
    chmod 1777 "$root/$folder"
  done
  for folder in bin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done
  printf 'root:x:0:0:root:/runs:/bin/sh\nnobody:x:65534:65534:nobody:/runs:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
  for folder in hosts hostname resolv.conf; do : >"$root/etc/$folder"; done
}

# place_image BASE PROGRAM: the two layers.
place_image() {
  local base=$1 program=$2 prefix=$2/usr/lib/gantrain file
  place_tree "$prefix" "$program/usr/share/doc/gantrain"
  install -m 644 "$GANTRAIN_ROOT/LICENSE" "$program/usr/share/doc/gantrain/"
  rm -rf "$prefix/share"
  place_etc "$base"
  while read -r file; do
    place_system_library "$base" "$file"
  done < <(loaded_libraries "$program" "$prefix/bin/gantrain" "$prefix"/lib/*.so "$prefix"/lib/gantrain/*.so* /bin/dash)
  install -m 755 /bin/dash "$base/usr/bin/sh"
  place_license "$base/usr/share/doc/gantrain" dash
  mkdir -p "$base/usr/lib/gantrain/lib/gantrain"
  mv "$prefix"/lib/gantrain/lib{torch,c10,gomp,cu}* "$base/usr/lib/gantrain/lib/gantrain/"
  mkdir -p "$program/usr/bin"
  ln -s ../lib/gantrain/bin/gantrain "$program/usr/bin/gantrain"
}

make_image() {
  [ -e /bin/dash ] || die 4 "/bin/dash is missing: the image takes its shell from there"
  place_image "$stage/base" "$stage/program"
  python3 "$GANTRAIN_ROOT/scripts/package/make_image.py" "$out/gantrain-$version-image.tar" "$version" "$stage/base" "$stage/program"
}

make_rootfs() {
  local folder=$out/gantrain-$version-rootfs
  place_image "$stage/base" "$stage/program"
  cp -a "$stage/program/." "$stage/base/"
  rm -rf "$folder"
  mv -T "$stage/base" "$folder"
  echo "$folder"
}
