#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installation, with stand-ins for dpkg-query, apt-get, apt-cache, id, sudo and pip.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
export GANTRAIN_CACHE_DIR=$tmp/cache
unset http_proxy https_proxy no_proxy
program "$tmp/bin/dpkg-query" <<<'for p in g++ cmake gone; do echo "installed $p"; done; exit 1'
program "$tmp/bin/apt-get" <<<"echo \"\$@\" >>$tmp/apt"
program "$tmp/bin/apt-cache" <<<'[ "$2" = compiler ] && echo "  Candidate: (none)"; [ "$2" != compiler-19 ] || { echo "  Candidate: 19.1"; sleep 0.1; echo "  Version table:"; }'
program "$tmp/bin/id" <<<'echo ${FAKE_UID:-0}'
program "$tmp/bin/sudo" <<<'exit 1'
PATH=$tmp/bin:$PATH

need() { bash -c '. "$1/scripts/setup.sh"; need_packages "${@:2}"' _ "$root" "$@" </dev/null; }

expect "with CDPATH, by which cd prints, the checkout is found" "$root" \
  "$(cd "$root" && CDPATH=. bash -c '. scripts/setup.sh; echo "$GANTRAIN_ROOT"')"

need g++ cmake
expect "nothing is missing: no apt-get" no "$([ -e "$tmp/apt" ] || echo no)"

need g++ mold ccache 2>/dev/null
expect "root installs what is missing" "update install -y --no-install-recommends mold ccache" \
  "$(sed 's/-qq -o [^ ]* -o [^ ]* //' "$tmp/apt" | xargs)"

rm "$tmp/apt"
need 'cmake|none' 'none|g++' 'compiler|' && code=0 || code=$?
expect "any of the names will do, and one that no apt knows may be missing" "0 no" "$code $([ -e "$tmp/apt" ] || echo no)"
need 'compiler-14|compiler-19|compiler' 'compiler|' 'tool|toolbox' 2>/dev/null
expect "the first name that apt knows; else the first of all" "update install -y --no-install-recommends compiler-19 tool" \
  "$(sed 's/-qq -o [^ ]* -o [^ ]* //' "$tmp/apt" | xargs)"

said=$(FAKE_UID=1000 need g++ mold ccache 2>&1) && code=0 || code=$?
expect "neither root nor sudo: exit code" 4 "$code"
expect "neither root nor sudo: one line" \
  "gantrain: Debian packages are missing, and this is not root: apt-get install mold ccache" "$said"

rm "$tmp/apt"
program "$tmp/bin/sudo" <<<'shift; "$@"'
FAKE_UID=1000 need g++ mold 2>/dev/null
expect "sudo without a password" "2" "$(wc -l <"$tmp/apt")"

program "$tmp/bin/sudo" <<<"printf '%s\n' \"\$*\" >>$tmp/sudo"
FAKE_UID=1000 http_proxy='' https_proxy=http://proxy:3128 need mold 2>/dev/null
expect "apt-get is told of a proxy" "--preserve-env=http_proxy,https_proxy,no_proxy" "$(sed -n '2s/^-n \([^ ]*\) .*/\1/p' "$tmp/sudo")"
FAKE_UID=1000 http_proxy='' https_proxy='' need mold 2>/dev/null
expect "where there is one" "2" "$(grep -c preserve "$tmp/sudo")"

program "$tmp/bin/apt-get" <<<'echo "E: no network" >&2; exit 100'
said=$(need mold 2>&1) && code=0 || code=$?
expect "apt-get fails: exit code" 4 "$code"
expect "apt-get fails: last line" "gantrain: apt-get could not install: mold" "$(tail -n 1 <<<"$said")"

# A wheel that is not what was expected is neither used nor kept.
program "$tmp/bin/python3" <<'END'
[ "$2" = pip ] && [ "$3" = --version ] && exit
while [ "$1" != --dest ]; do shift; done
echo "not torch" >"$2/some_thing-1.0-py3-none-any.whl"
END
fetch() { bash -c '. "$1/scripts/setup.sh"; with_lock fetch_wheel some-thing 1.0 "$2"' _ "$root" "$1"; }
said=$(fetch "$(printf 'torch' | sha256sum | cut -d' ' -f1)" 2>&1) && code=0 || code=$?
expect "a wrong wheel: exit code" 3 "$code"
expect "a wrong wheel: where it may come from" "pip config list" "$(tail -n 1 <<<"$said" | grep -o 'pip config list')"
expect "a wrong wheel: not kept" "" "$(ls "$GANTRAIN_CACHE_DIR/wheels")"
sum=$(echo "not torch" | sha256sum | cut -d' ' -f1)
fetch "$sum" 2>/dev/null
expect "the right wheel is kept" "some_thing-1.0-py3-none-any.whl" "$(ls "$GANTRAIN_CACHE_DIR/wheels")"
program "$tmp/bin/python3" <<<'exit 1'
fetch "$sum"

# The whole header of cpp-httplib: from the distribution's sources, once; without them its own library has to do.
program "$tmp/bin/dpkg-query" <<<'case $* in *source:Version*) echo 1.0-1 ;; *) shift 3; for p; do echo "installed $p"; done ;; esac'
httplib() { bash -c '. "$1/scripts/setup.sh"; setup_httplib; echo "httplib=$httplib"' _ "$root"; }
program "$tmp/bin/apt-get" <<<"echo asked >>$tmp/sources; exit 100"
expect "no sources" "httplib=" "$(httplib 2>/dev/null)"
expect "no sources: not asked again at the next build" "httplib= 1" "$(httplib 2>/dev/null) $(wc -l <"$tmp/sources")"
rm "$GANTRAIN_CACHE_DIR/cpp-httplib-1.0-1.failed"
program "$tmp/bin/apt-get" <<END
case "\$*" in *"source cpp-httplib=1.0-1"*) mkdir cpp-httplib-1.0 && cd cpp-httplib-1.0 && echo header >httplib.h && echo terms >LICENSE ;; esac
echo asked >>$tmp/sources
END
here=$GANTRAIN_CACHE_DIR/cpp-httplib-1.0-1
expect "the header of that version" "httplib=$here header" "$(httplib 2>/dev/null) $(cat "$here/httplib.h")"
httplib >/dev/null
expect "fetched once" "3" "$(wc -l <"$tmp/sources")"
expect "nothing else is left" "LICENSE httplib.h" "$(cd "$here" && echo *)"

# A cache that others may only read serves if all is there.
cp -r "$root/scripts" "$tmp/"
chmod 755 "$tmp"
may_not_write "$GANTRAIN_CACHE_DIR"
reader() { as_reader bash -c '. "$1/scripts/setup.sh"; eval "$2"' _ "$tmp" "$1" 2>&1; }
expect "a cache to read" "httplib=$here" "$(reader 'setup_httplib; echo "httplib=$httplib"')"
said=$(reader setup_libtorch) && code=0 || code=$?
expect "something is missing there" "8 gantrain: $GANTRAIN_CACHE_DIR cannot be written; GANTRAIN_CACHE_DIR names another place" "$code $said"
chmod -R u+w "$GANTRAIN_CACHE_DIR"
rm "$here/httplib.h"
may_not_write "$GANTRAIN_CACHE_DIR"
expect "the header is missing there" "gantrain: gantrain serve uses this system's libcpp-httplib httplib=" \
  "$(reader 'setup_httplib; echo "httplib=$httplib"' | tail -n 2 | xargs -d '\n')"
chmod -R u+w "$GANTRAIN_CACHE_DIR"

# The platform of the wheels is this machine's.
program "$tmp/bin/python3" <<END
[ "\$2" = pip ] && [ "\$3" = --version ] && exit
echo "\$@" >"$tmp/pip"
exit 1
END
program "$tmp/bin/uname" <<<'echo aarch64'
asked=$(bash -c '. "$1/scripts/setup.sh"; setup_libtorch' _ "$root" 2>&1) && code=0 || code=$?
expect "ARM: torch's wheel: $asked" "4 manylinux_2_28_aarch64 torch===2.11.0" \
  "$code $(grep -o 'manylinux_2_28_[a-z0-9_]*' "$tmp/pip") $(grep -o 'torch==*[0-9.]*' "$tmp/pip")"
program "$tmp/bin/uname" <<<'echo riscv64'
said=$(bash -c '. "$1/scripts/setup.sh"; setup_libtorch' _ "$root" 2>&1) && code=0 || code=$?
expect "another machine: exit code and line" \
  "4 gantrain: LibTorch 2.11.0 is made for x86_64 and aarch64; this machine is riscv64 (GANTRAIN_LIBTORCH names one of your own)" "$code $said"
