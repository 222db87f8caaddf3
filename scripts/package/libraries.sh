# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Libraries of this system that programs need where they are carried to; sourced. Reads `slim`, the folders of those that
# take the place of the system's.

# What every Linux of that age has, and what comes with torch or stands in the tree already.
readonly EVERYWHERE='^(linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+|torch.*|c10.*|gomp|caffe2.*|cu[a-z]+|cupti|nccl|nv[a-z]+|gantrain.*))(-[a-z0-9-]+)?\.so'

# Packages of headers alone, of which there is code in the programs, too.
readonly HEADERS_INSIDE=(libcli11-dev nlohmann-json3-dev libcpp-httplib-dev)

# system_libraries FILE...: what these need of this machine beyond that: one path a line.
system_libraries() {
  LD_LIBRARY_PATH=$(IFS=: && echo "${slim[*]:-}") ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u |
    grep -Ev "$EVERYWHERE" | cut -d' ' -f2 || true
}

# package_of FILE: the Debian package that it belongs to. dpkg knows some under /lib and some under /usr/lib, whichever of
# the two is a link.
package_of() {
  local real
  real=$(realpath "$1")
  { dpkg-query -S "$real" "${real#/usr}" "/usr${real#/usr}" 2>/dev/null || true; } | head -n 1 | cut -d: -f1
}

# place_license LICENSES PACKAGE: what Debian says of its rights.
place_license() {
  local file=/usr/share/doc/$2/copyright
  if [ -z "$2" ] || [ ! -e "$file" ] || [ -e "$1/$2.txt" ]; then return; fi
  install -D -m 644 "$file" "$1/$2.txt"
}

# bundle LIBRARIES LICENSES FILE...: copies them, each finding the others beside itself, with licences.
bundle() {
  local libraries=$1 licenses=$2 file name package
  mkdir -p "$libraries" "$licenses"
  while read -r file; do
    install -m 644 "$file" "$libraries/"
    # shellcheck disable=SC2016 # the loader replaces it
    patchelf --set-rpath '$ORIGIN' "$libraries/${file##*/}"
    if [[ ${file%/*} == *-slim ]]; then
      name=${file##*/}
      install -m 644 "${file%/*}/LICENSE" "$licenses/${name%%.*}.txt"
    else
      place_license "$licenses" "$(package_of "$file")"
    fi
  done < <(system_libraries "${@:3}")
  for package in "${HEADERS_INSIDE[@]}"; do place_license "$licenses" "$package"; done
}

# newest_symbol FOLDER NAME: the newest version of that name, GLIBC_2.34, that the programs in the folder ask for.
newest_symbol() {
  find "$1" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null |
    grep -o "\b$2_[0-9.]*[0-9]" | sort -uV | tail -n 1
}
