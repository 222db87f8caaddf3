# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Libraries compiled from the distribution's own sources, with its security patches: those whose packages there have
# more inside than is needed. Functions alone: sourced by setup.sh. What is made stands in $GANTRAIN_CACHE_DIR under the
# version of the package that is installed, so that an update of the system makes it anew.

# source_lists FOLDER: apt's own lists with the sources in place of the packages, signatures and all.
source_lists() {
  local file
  mkdir -p "$1/parts" "$1/lists/partial" "$1/cache/archives/partial"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -e "$file" ] || sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' "$file" >"$1/parts/${file##*/}"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$1/parts/${file##*/}"
  done
}

# debian_source NAME VERSION FOLDER: unpacks the source of that package there, patched. Needs no root; fails where apt
# has no sources.
debian_source() {
  local lists apt
  need_packages dpkg-dev
  lists=$(mktemp -d "$GANTRAIN_CACHE_DIR/.sources-XXXXXX")
  source_lists "$lists"
  apt=(apt-get -qq -o "Dir::Etc::SourceList=/dev/null" -o "Dir::Etc::SourceParts=$lists/parts"
    -o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1
    -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
  say "fetching the source of $1 $2"
  if (cd "$lists" && "${apt[@]}" update && "${apt[@]}" source "$1=$2") </dev/null >"$lists/said" 2>&1 &&
    mv -T "$(find "$lists" -mindepth 1 -maxdepth 1 -type d -name "$1-*")" "$3"; then
    rm -rf "$lists"
    return 0
  fi
  say "the source of $1 $2 could not be had: $(grep -m 1 '^E:' "$lists/said" || tail -n 1 "$lists/said")"
  rm -rf "$lists"
  return 1
}

installed_version() { dpkg-query -W -f '${source:Version}\n' "$1" 2>/dev/null || true; }

# The whole header of cpp-httplib: Debian's package has the header of a library that is compiled with OpenSSL and brotli.
httplib_dir() { echo "$GANTRAIN_CACHE_DIR/cpp-httplib-$(installed_version libcpp-httplib-dev)"; }

unpack_httplib() {
  local folder=$1 source=$1/source
  [ ! -e "$folder/httplib.h" ] || return 0
  rm -rf "$folder"
  mkdir -p "$folder"
  debian_source cpp-httplib "$(installed_version libcpp-httplib-dev)" "$source" || return
  install -m 644 "$source/LICENSE" "$folder/LICENSE" && install -m 644 "$source/httplib.h" "$folder/.part" &&
    rm -rf "$source" && mv "$folder/.part" "$folder/httplib.h" # last: tells that the rest is there
}

# Sets `httplib` to the folder of the whole header; empty where the distribution's library has to do: then it is tried
# again after a day.
setup_httplib() {
  local folder
  httplib=
  [ -n "$(installed_version libcpp-httplib-dev)" ] || return 0
  folder=$(httplib_dir)
  if [ ! -e "$folder/httplib.h" ]; then
    [ -z "$(find "$folder.failed" -mtime -1 2>/dev/null)" ] || return 0
    if ! (with_lock unpack_httplib "$folder"); then
      touch "$folder.failed" 2>/dev/null || true
      say "gantrain serve uses this system's libcpp-httplib"
      return 0
    fi
  fi
  # shellcheck disable=SC2034 # for build.sh
  httplib=$folder
}

# Libraries under the name and with the interface of the system's that hold only what gantrain needs of them, for packages:
# a libarchive that reads tar, zstd, xz and bzip2, and needs neither libxml2 with its 31 MB of tables nor functions of
# newer C libraries, and a libzip without the 5 MB of libcrypto, which serve encrypted members.
slim_dir() { echo "$GANTRAIN_CACHE_DIR/$1-$(installed_version "$1-dev")-slim"; }

# compile_slim SOURCE BUILD TARGET DEFINITION...
compile_slim() {
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2 \
    -DCMAKE_C_FLAGS="-ffile-prefix-map='$1'=." -Wno-dev "${@:4}" && cmake --build "$2" --target "$3"
}

compile_libarchive() { # compile_libarchive SOURCE BUILD
  local off=() part
  for part in MBEDTLS NETTLE OPENSSL LIBB2 LZ4 LZO LIBXML2 EXPAT PCREPOSIX CNG TAR CPIO CAT XATTR ACL TEST INSTALL WERROR; do
    off+=("-DENABLE_$part=OFF")
  done
  # Its own random numbers, under a name that the C library does not declare.
  sed -i 's/\barc4random_buf\b/la_arc4random_buf/' "$1/libarchive/archive_random.c"
  sed -i 's/^SET(SOVERSION .*/SET(SOVERSION 13)/' "$1/CMakeLists.txt" # as its other build system and Debian count
  compile_slim "$1" "$2" archive "${off[@]}" -DHAVE_ARC4RANDOM_BUF=0
}

compile_libzip() { # compile_libzip SOURCE BUILD
  local off=() part
  for part in ENABLE_GNUTLS ENABLE_MBEDTLS ENABLE_OPENSSL BUILD_TOOLS BUILD_REGRESS BUILD_EXAMPLES BUILD_DOC; do
    off+=("-D$part=OFF")
  done
  compile_slim "$1" "$2" zip "${off[@]}" -DHAVE_ARC4RANDOM=0
}

# build_slim NAME LICENSE: NAME is the package's source and its library.
build_slim() {
  local name=$1 folder work made
  folder=$(slim_dir "$name")
  work=$folder/.work
  [ ! -e "$folder/LICENSE" ] || return 0
  rm -rf "$folder"
  mkdir -p "$work"
  debian_source "$name" "$(installed_version "$name-dev")" "$work/source" || return
  "compile_$name" "$work/source" "$work/build" >"$work/said" 2>&1 ||
    { say "$name could not be compiled: $(tail -n 3 "$work/said")"; return 1; }
  made=$(find "$work/build" -name "$name.so" | head -n 1)
  strip --strip-unneeded -o "$folder/$(objdump -p "$made" | awk '$1 == "SONAME" {print $2}')" "$made" &&
    install -m 644 "$work/source/$2" "$folder/.part" && rm -rf "$work" &&
    mv "$folder/.part" "$folder/LICENSE" # last: tells that the rest is there
}

# Sets `slim` to their folders; ends where one cannot be made.
setup_slim_libraries() {
  local row
  slim=()
  need_packages libarchive-dev libzip-dev libzstd-dev liblzma-dev libbz2-dev zlib1g-dev binutils cmake ninja-build
  for row in libarchive:COPYING libzip:LICENSE; do
    [ -e "$(slim_dir "${row%:*}")/LICENSE" ] || with_lock build_slim "${row%:*}" "${row#*:}" ||
      die 4 "a package needs a ${row%:*} of its own, compiled from the system's source: apt needs lists of sources (deb-src)"
    slim+=("$(slim_dir "${row%:*}")")
  done
}
