#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installation, with stand-ins for dpkg-query, apt-get, id, sudo and pip.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
export GANTRAIN_CACHE_DIR=$tmp/cache
program "$tmp/bin/dpkg-query" <<<'for p in g++ cmake gone; do echo "installed $p"; done; exit 1'
program "$tmp/bin/apt-get" <<<"echo \"\$@\" >>$tmp/apt"
program "$tmp/bin/id" <<<'echo ${FAKE_UID:-0}'
program "$tmp/bin/sudo" <<<'exit 1'
PATH=$tmp/bin:$PATH

need() { bash -c '. "$1/scripts/setup.sh"; need_packages "${@:2}"' _ "$root" "$@" </dev/null; }

need g++ cmake
expect "nothing is missing: no apt-get" no "$([ -e "$tmp/apt" ] || echo no)"

need g++ mold ccache 2>/dev/null
expect "root installs what is missing" "update install -y --no-install-recommends mold ccache" \
  "$(sed 's/-qq -o [^ ]* -o [^ ]* //' "$tmp/apt" | xargs)"

said=$(FAKE_UID=1000 need g++ mold ccache 2>&1) && code=0 || code=$?
expect "neither root nor sudo: exit code" 4 "$code"
expect "neither root nor sudo: one line" \
  "gantrain: Debian packages are missing, and this is not root: apt-get install mold ccache" "$said"

rm "$tmp/apt"
program "$tmp/bin/sudo" <<<'shift; "$@"'
FAKE_UID=1000 need g++ mold 2>/dev/null
expect "sudo without a password" "2" "$(wc -l <"$tmp/apt")"

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
expect "a wrong wheel: not kept" "" "$(ls "$GANTRAIN_CACHE_DIR/wheels")"
sum=$(echo "not torch" | sha256sum | cut -d' ' -f1)
fetch "$sum" 2>/dev/null
expect "the right wheel is kept" "some_thing-1.0-py3-none-any.whl" "$(ls "$GANTRAIN_CACHE_DIR/wheels")"
program "$tmp/bin/python3" <<<'exit 1'
fetch "$sum"
