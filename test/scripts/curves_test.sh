#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/peers/curves.py with stand-ins for gantrain and the official code: what it trains and measures, its law, that it goes on
# where it was ended, also with more seeds, codes and metrics, what it says of a training that fails and of what is missing, and
# that it leaves nothing running.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
command -v python3 >/dev/null || skip "there is no python3"

# Training writes models and ticks; a metric is 100 less the kimg of what was drawn, plus what $DRIFT says for gantrain's side.
program "$tmp/gantrain" <<'END'
case $1 in
  generate)
    while [ $# -gt 0 ]; do [ "$1" = --model ] && model=$2; [ "$1" = --outdir ] && out=$2; shift; done
    mkdir -p "$out"; basename "$model" .safetensors | sed 's/model-0*//' >"$out/kimg" ;;
  metrics)
    echo measured >>"$MEASURED"
    if [ -d "$4" ]; then kimg=$(cat "$4/kimg"); else kimg=$(basename "$4" .zip); kimg=$(awk "BEGIN{print $kimg / 1000}"); DRIFT=0; fi
    case $* in *"--metrics swd "*) ;; *"--detector $OUT/classifier.pt"*) ;; *) exit 2 ;; esac
    awk "BEGIN{v = 100 - $kimg + ${DRIFT:-0}; printf \"{\\\"results\\\": {\\\"swd\\\": %g}}\\n{\\\"results\\\": {\\\"fd\\\": %g}}\\n\", v, v}" ;;
  *)
    echo trained >>"$TRAINED"
    while [ $# -gt 0 ]; do [ "$1" = --run-dir ] && run=$2; shift; done
    mkdir -p "$run"
    for kimg in 5 10; do
      : >"$run/model-$(printf '%06d.000' $kimg).safetensors"
      echo "{\"Progress/kimg\": {\"mean\": $kimg}, \"Timing/total_sec\": {\"mean\": $((kimg * ${PACE:-3}))}}" >>"$run/stats.jsonl"
    done ;;
esac
END
program "$tmp/python" <<'END'
case $1 in
  -c) case $* in *scipy*) [ -z "${NO_SCIPY:-}" ] || echo "scipy (No module named 'scipy')" ;; esac; exit ;;
  *classifier.py) touch "$5"; exit ;;
esac
echo official >>"$TRAINED"
if [ -n "${SLEEPS:-}" ]; then echo $$ >>"$SLEEPS"; exec sleep 600; fi
[ -z "${BROKEN:-}" ] || { echo "no such checkout"; exit 5; }
while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
: >"$out/5000.zip"; : >"$out/10000.zip"
echo '{"5": 30, "10": 60}' >"$out/times.json"
END
export MEASURED=$tmp/measured TRAINED=$tmp/trained
python3 -c 'import sys, zipfile
zipfile.ZipFile(sys.argv[1], "w").writestr("dataset.json", """{"labels": [["a.png", 0], ["b.png", 1]]}""")' "$tmp/data.zip"
mkdir -p "$tmp/checkout/training"
touch "$tmp/checkout/training/"{networks,networks_stylegan3}.py
curves() { # curves FOLDER [FLAG...]: what it says is in $tmp/said, its exit code in $code
  code=0
  OUT=$1 python3 "$root/scripts/peers/curves.py" --data "$tmp/data.zip" --out "$1" --gantrain "$tmp/gantrain" --python "$tmp/python" \
    --stylegan2 "$tmp/checkout" --kimg 10 --every 5 --seeds 2 --jobs 2 "${@:2}" >"$tmp/said" 2>&1 || code=$?
}
count() { wc -l <"$1" | tr -d ' '; }

curves "$tmp/equal"
expect "exit where the curves are equal" 0 "$code"
expect "trainings: two seeds of each side" 4 "$(count "$TRAINED")"
expect "measurements" 8 "$(count "$MEASURED")"
grep -q 'kimg     10  gantrain       90 (90, 90) .*official       90 (90, 90)' "$tmp/said" || expect "the table" "90 at kimg 10" "$(cat "$tmp/said")"
grep -q '10 kimg take 30 s, official 60 s' "$tmp/said" || expect "the times" "30 s and 60 s" "$(cat "$tmp/said")"
expect "what is kept" "holds 4" "$(python3 -c 'import json, sys
kept = json.load(open(sys.argv[1]))
print(kept["law"], sum(len(side) for side in kept["curves"]["stylegan2"].values()))' "$tmp/equal/curves.json")"
for metric in swd fd; do
  grep -q '<svg' "$tmp/equal/stylegan2-$metric.svg" || expect "the drawing" "<svg" "none"
done

curves "$tmp/equal"
expect "trainings of a second call" 4 "$(count "$TRAINED")"
expect "its measurements" 8 "$(count "$MEASURED")"

curves "$tmp/equal" --seeds 3
expect "exit with another seed" 0 "$code"
expect "trainings: those of the third seed" 6 "$(count "$TRAINED")"
expect "measurements of it" 12 "$(count "$MEASURED")"

NO_SCIPY=yes curves "$tmp/equal" --seeds 3 --stylegan3 "$tmp/checkout"
expect "exit without scipy" 1 "$code"
expect "what it says" "--python $tmp/python lacks scipy (No module named 'scipy'); for stylegan3 it needs torch, numpy, Pillow, scipy" \
  "$(cat "$tmp/said")"
curves "$tmp/equal" --stylegan3 "$tmp"
expect "exit where the checkout is another folder" 1 "$code"
expect "what it says" "--stylegan3 $tmp: none of training/networks_stylegan3.py there" "$(cat "$tmp/said")"
expect "trainings before both were noticed" 6 "$(count "$TRAINED")"

curves "$tmp/equal" --stylegan3 "$tmp/checkout"
expect "exit with another official code" 0 "$code"
expect "trainings: two seeds of each side of it" 10 "$(count "$TRAINED")"
kept() { python3 -c 'import json, sys
print({net: len(sides["official"]) for net, sides in json.load(open(sys.argv[1]))["curves"].items()})' "$tmp/equal/curves.json"; }
expect "nets that are kept" "{'stylegan2': 2, 'stylegan3': 2}" "$(kept)"
curves "$tmp/equal" --stylegan2 "" --stylegan3 "$tmp/checkout" --seeds 1
expect "nets after a call for one of them" "{'stylegan2': 2, 'stylegan3': 1}" "$(kept)"

curves "$tmp/equal" --seeds 4 --official-seeds 2
expect "trainings of a seed of gantrain alone" 11 "$(count "$TRAINED")"
grep -q 'stylegan2, fd: medians of 4 seeds of gantrain and 2 seeds of official (least, most)' "$tmp/said" || expect "numbers of seeds" "4 and 2" "$(cat "$tmp/said")"

curves "$tmp/more" --metrics swd
expect "measurements of one metric" 30 "$(count "$MEASURED")"
curves "$tmp/more"
expect "measurements of another one" 38 "$(count "$MEASURED")"
expect "values of both" "fd kimg seconds swd" "$(python3 -c 'import json, sys
print(*sorted(json.load(open(sys.argv[1]))[0]))' "$tmp/more/stylegan2-gantrain-1/measured.json")"
rm "$tmp/more/classifier.pt"
curves "$tmp/more"
expect "measurements with another classifier" 46 "$(count "$MEASURED")"

curves "$tmp/more" --kimg 15
expect "exit with another length" 1 "$code"
expect "what it says" "--kimg: $tmp/more has numbers of 10.0, not of 15.0: another --out is needed" "$(cat "$tmp/said")"
curves "$tmp/more" --kimg 12
expect "exit where the last step is cut off" 2 "$code"

DRIFT=15 curves "$tmp/worse"
expect "exit where gantrain is worse by more than a tenth" 1 "$code"
grep -q "outside: stylegan2: swd at kimg 10: gantrain's median 105 is outside 90 to 90" "$tmp/said" || expect "what is outside" "105" "$(cat "$tmp/said")"

PACE=20 curves "$tmp/slow"
expect "exit where gantrain is not ahead at equal minutes" 1 "$code"
grep -q "outside: stylegan2: swd after 0.5 minutes: gantrain's median inf is not below 95" "$tmp/said" || expect "what is not ahead" "not ahead" "$(cat "$tmp/said")"

BROKEN=yes curves "$tmp/broken"
expect "exit where a training fails" 1 "$code"
grep -q "ended with 5: see $tmp/broken/stylegan2-official-1/log.txt" "$tmp/said" || expect "where it is said" "the log" "$(cat "$tmp/said")"

# Ended while it trains: nothing is left running, and nothing counts as trained.
export SLEEPS=$tmp/sleeps
OUT=$tmp/ended ended_at "$SLEEPS" python3 "$root/scripts/peers/curves.py" --data "$tmp/data.zip" --out "$tmp/ended" --gantrain "$tmp/gantrain" \
  --python "$tmp/python" --stylegan2 "$tmp/checkout" --kimg 10 --every 5 --seeds 2 --jobs 1
expect "exit of a script that was ended" 75 "$code"
kill -0 "$(cat "$SLEEPS")" 2>/dev/null && expect "what it started" ended running
expect "what counts as trained" "" "$(find "$tmp/ended" -name trained)"
