# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Libraries of this system that programs need where they are carried to; sourced.

# What every Linux of that age has, and what comes with torch or stands in the tree already.
readonly EVERYWHERE='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|torch.*|c10.*|gomp|caffe2.*|cu[a-z]+|cupti|nccl|nv[a-z]+|gantrain.*))(-[a-z0-9-]+)?\.so'

# system_libraries FILE...: what these need of this machine beyond that: one path a line.
system_libraries() {
  LD_LIBRARY_PATH='' ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
    grep -Ev "$EVERYWHERE" | cut -d' ' -f2 || true
}

# bundle LIBRARIES LICENSES FILE...: copies them, each finding the others beside itself, with licences.
bundle() {
  local libraries=$1 licenses=$2 file package seen=' '
  mkdir -p "$libraries" "$licenses"
  while read -r file; do
    install -m 644 "$file" "$libraries/"
    # shellcheck disable=SC2016 # the loader replaces it
    patchelf --set-rpath '$ORIGIN' "$libraries/${file##*/}"
    package=$(dpkg-query -S "$(realpath "$file")" 2>/dev/null | head -n 1 | cut -d: -f1) || package=
    if [ -n "$package" ] && [[ $seen != *" $package "* ]] && [ -e "/usr/share/doc/$package/copyright" ]; then
      install -m 644 "/usr/share/doc/$package/copyright" "$licenses/$package.txt"
      seen+="$package "
    fi
  done < <(system_libraries "${@:3}")
}
