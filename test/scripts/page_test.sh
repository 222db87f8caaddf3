#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# page_test.sh GANTRAIN: a browser opens the page of a run, one that compares two, and those of gantrain
# serve. Their scripts run without an error, nothing is asked for elsewhere, the slider and the values below the pointer work.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
browser=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser) ||
  skip "no chromium-headless-shell or chromium"

mkdir -p "$tmp/home"
for run in a b; do
  "$1" --preset dcgan-tiny --device cpu --threads 1 --resolution 16 --kimg 0.5 --metrics none \
    --batch 16 --set samples.every=0.1 --set train.tick=0.1 --run-dir "$tmp/$run" 2>"$tmp/log" ||
    { cat "$tmp/log" >&2; exit 1; }
done
"$1" report "$tmp/a" "$tmp/b" -o "$tmp/compare.html" >"$tmp/said"

# visit FILE|URL NAME ARGUMENT...: the page as the browser has it after its script, in $tmp/NAME.html.
visit() {
  local file=$1 name=$2
  shift 2
  HOME=$tmp/home timeout 120 "$browser" --no-sandbox --disable-gpu --disable-background-networking \
    --disable-component-update --no-first-run --user-data-dir="$tmp/home/$name" \
    --enable-logging=stderr --log-net-log="$tmp/$name.net" "$@" --dump-dom "${file/#\//file:///}" \
    >"$tmp/$name.html" 2>"$tmp/$name.err" ||
    { tail -5 "$tmp/$name.err" >&2; expect "$name opens" 0 1; }
}
console() { grep -o 'CONSOLE.*' "$tmp/$1.err" || true; }
requests() { grep -oE '"url":"(https?|wss?|ftp):[^"]*' "$tmp/$1.net" | sort -u || true; }

# open FILE NAME ARGUMENT...: a visit in which nothing is said and nothing leaves.
open() {
  visit "$@"
  expect "$2: what the console says" "" "$(console "$2")"
  expect "$2: requests that leave" "" "$(requests "$2")"
}

# Both would be seen.
echo '<body><img src="http://127.0.0.1:9/x.png"><script>nobody()</script>' >"$tmp/wrong.html"
visit "$tmp/wrong.html" seen
[[ $(console seen) == *"nobody is not defined"* ]] || expect "an error is seen" yes "$(console seen)"
expect "a request is seen" '"url":"http://127.0.0.1:9/x.png' "$(requests seen)"

# At the end of a copy of the page: the slider goes to its beginning, the pointer to a chart.
{
  cat "$tmp/a/report.html"
  cat <<'SCRIPT'
<script>
const slider = document.querySelector('input[type=range]');
slider.value = 0;
slider.dispatchEvent(new Event('input'));
const chart = [...document.querySelectorAll('figure')].find(f => f.textContent.includes('Loss/G/loss'));
const area = chart.querySelector('svg').getBoundingClientRect();
chart.querySelector('svg').dispatchEvent(
    new PointerEvent('pointermove', { clientX: area.left + area.width, clientY: area.top + 9 }));
document.body.dataset.place = document.querySelector('.place').textContent;
document.body.dataset.shown = document.querySelectorAll('.lapse img:not([hidden])').length;
document.body.dataset.values = chart.querySelector('.values').textContent;
document.body.dataset.wide = document.documentElement.scrollWidth > window.innerWidth;
</script>
SCRIPT
} >"$tmp/copy.html"

open "$tmp/a/report.html" report
open "$tmp/compare.html" compare
open "$tmp/copy.html" moved --window-size=390,844

# said NAME: what the copy's script has noted.
said() { grep -oE "data-$1=\"[^\"]*" "$tmp/moved.html" | tail -1 | cut -d'"' -f2; }
expect "the first grid" "0 kimg" "$(said place)"
expect "grids seen at a time" 1 "$(said shown)"
expect "nothing is wider than a phone" false "$(said wide)"
[[ $(said values) =~ ^0\.5[0-9]*\ kimg:\ G\'s\ loss\ [0-9.]+,\ D\'s\ loss\ [0-9.]+$ ]] ||
  expect "values below the pointer" "0.5.. kimg: G's loss .., D's loss .." "$(said values)"

# The same pages, served: all that they ask for is the server's own.
"$1" serve "$tmp" --port 0 >"$tmp/address" 2>"$tmp/serve.err" &
server=$!
at_end() { kill "$server" 2>/dev/null || true; rm -rf "$tmp"; }
for _ in {1..100}; do
  [ ! -s "$tmp/address" ] || break
  sleep 0.1
done
address=$(grep -o '^http://127.0.0.1:[0-9]*/$' "$tmp/address") || expect "an address" yes "$(cat "$tmp/serve.err")"
for page in '' run/a; do
  name=served${page//\//_}
  visit "$address$page" "$name"
  expect "$name: what the console says" "" "$(console "$name")"
  expect "$name: requests that leave" "" "$(requests "$name" | grep -vF "$address" || true)"
done
expect "the list has both runs" "/run/a /run/b" "$(grep -o '/run/[ab]' "$tmp/served.html" | xargs)"
expect "the page is alive" 1 "$(grep -c 'class="place">0\.5' "$tmp/servedrun_a.html")"
kill -INT "$server"
code=0
wait "$server" || code=$?
expect "Ctrl-C ends it" 0 "$code"
