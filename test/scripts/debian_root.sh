# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Small systems to install packages into; sourced after check.sh.

# debian_root SUITE: sets `debian` to a minimal Debian of that suite, made once by debootstrap and kept in the cache;
# empty, with the reason in `no_debian`, where none can be made.
debian_root() {
  local cache=${GANTRAIN_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/gantrain} mirror
  debian=$cache/roots/$1 no_debian=''
  if [ -e "$debian/.made" ]; then return; fi
  # awk reads to the end: a pipe that is closed early counts as a failure here.
  mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[.*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '/\/debian\/?$/ && !seen++') || true
  mirror=${mirror:-http://deb.debian.org/debian}
  command -v debootstrap >/dev/null || no_debian="no debootstrap"
  if [ -z "$no_debian" ]; then
    mkdir -p "$cache/roots"
    rm -rf "$debian"
    # In a namespace of its own: whatever it mounts goes with it.
    unshare -m debootstrap --variant=minbase "$1" "$debian" "$mirror" >"$tmp/debootstrap" 2>&1 ||
      no_debian="debootstrap $1: $(tail -n 1 "$tmp/debootstrap")"
  fi
  if [ -n "$no_debian" ]; then debian=''; return; fi
  rm -f "$debian"/var/cache/apt/archives/*.deb
  touch "$debian/.made"
}

# What runs in a mount namespace over such a root, or over this system: `over ROOT WORK` mounts a throw-away copy at
# WORK/root, with /proc and the devices that programs open, and nothing of this machine's /dev.
# shellcheck disable=SC2034,SC2016 # for those who source this; expanded there
readonly OVER='
devices() {
  mount -t tmpfs -o mode=755 none "$1/dev"
  mkdir "$1/dev/shm"
  mount -t tmpfs -o mode=1777,size=64m none "$1/dev/shm"
  for device in null zero full random urandom tty; do
    : >"$1/dev/$device"
    mount --bind "/dev/$device" "$1/dev/$device"
  done
  ln -s /proc/self/fd "$1/dev/fd"
}
over() {
  mount -t tmpfs none "$2"
  mkdir "$2/upper" "$2/work" "$2/root"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root" || { echo "no overlay"; exit 77; }
  mount -t proc proc "$2/root/proc"
  devices "$2/root"
}
as_user() { # as_user ROOT USER HOME COMMAND...
  env -i HOME="$3" PATH=/usr/bin:/bin "$(command -v chroot)" --userspec="$2:$2" --groups= "$1" "${@:4}"
}
'

# smoke_digest FILE: the digest of the weights that a smoke job in that output ended with.
smoke_digest() { grep -o 'SMOKE OK [0-9a-f]*' "$1" | cut -d' ' -f3; }
