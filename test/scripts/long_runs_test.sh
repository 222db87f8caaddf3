#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/measure/long_runs.py with a stand-in for gantrain: what it leaves in --out, that it trains nothing twice and goes on
# where it was ended, runs that diverge, and trainings that fail.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
python=${GANTRAIN_PYTHON:-python3}
"$python" -c 'import PIL' 2>/dev/null || skip "no Python with Pillow"
export python TRAINED=$tmp/trained SLEEPS=$tmp/sleeps
touch "$TRAINED"

# A training of 4 kimg saves models at 0, 2 and 4; r3gan-tiny diverges after the second, pggan-tiny waits to be ended where $WAITS
# says so, stylegan1-tiny fails. A model draws pictures of one grey, 50 times its kimg.
program "$tmp/gantrain" <<'END_PROGRAM'
case $1 in
  generate)
    while [ $# -gt 0 ]; do [ "$1" = --model ] && model=$2; [ "$1" = --outdir ] && out=$2; shift; done
    mkdir -p "$out"
    grey=$((50 * 10#$(basename "$model" .safetensors | sed 's/model-//')))
    "$python" -c 'import PIL.Image, sys
for seed in range(8):
    PIL.Image.new("L", (64, 64), int(sys.argv[2])).save(f"{sys.argv[1]}/seed{seed:04d}.png")' "$out" "$grey"
    exit ;;
  report)
    echo '<div class="verdict good"><b>healthy</b>: 2 &lt; 3<p>Rule: r.</p></div><div class="verdict bad"><b>x</b>: y<p></p>' >"$2/report.html"
    exit ;;
esac
while [ $# -gt 0 ]; do [ "$1" = --preset ] && preset=$2; [ "$1" = --run-dir ] && run=$2; shift; done
echo "$preset" >>"$TRAINED"
mkdir -p "$run"
touch "$run/model-000000.safetensors" "$run/model-best.safetensors"
case $preset in
  pggan-tiny)
    if [ -n "${WAITS:-}" ]; then
      trap 'exit 75' TERM
      echo yes >"$SLEEPS"
      while :; do sleep 0.1; done
    fi ;;
  stylegan1-tiny) echo "no memory"; exit 7 ;;
esac
touch "$run/model-000002.safetensors"
echo '{"Timing/total_sec": {"mean": 61.7}}' >"$run/stats.jsonl"
echo '{"results": {"swd": 33.333}, "kimg": 3}' >"$run/metric-swd.jsonl"
if [ "$preset" = r3gan-tiny ]; then echo "failed: diverged" >"$run/STATUS"; exit 5; fi
touch "$run/model-000004.safetensors"
echo "done 4 kimg" >"$run/STATUS"
END_PROGRAM
long_runs() { # long_runs PRESETS [FLAG...]
  code=0
  "$python" "$root/scripts/measure/long_runs.py" --gantrain "$tmp/gantrain" --out "$tmp/out" --work "$tmp/work" --kimg 4 --every 2 \
    --presets "$@" >"$tmp/said" 2>&1 || code=$?
}
look() { "$python" -c "import json, os, sys, PIL.Image
out = sys.argv[1]
result = lambda name: json.load(open(f'{out}/{name}.json'))
picture = lambda name: PIL.Image.open(f'{out}/{name}')
print($1)" "$tmp/out"; }

long_runs dcgan-tiny,r3gan-tiny
expect "exit" 0 "$code"
expect "what is in the folder of results" "dcgan-tiny.json dcgan-tiny.png long-runs.gif long-runs.json r3gan-tiny.json r3gan-tiny.png" \
  "$(cd "$tmp/out" && echo *)"
expect "what is told" "done 4 kimg|healthy: 2 < 3|62|33.3|3|4|[0, 2, 4]" "$(look "'|'.join(str(result('dcgan-tiny')[key]) for key in
  ('status', 'verdict', 'seconds', 'swd', 'swd_kimg', 'kimg', 'rows'))")"
expect "the command, without this machine's folders" "gantrain --preset dcgan-tiny --data synth:shapes --kimg 4 --save-every 2 --set \
samples.every=2 --device cpu --nproc 1 --threads 1 --run-dir dcgan-tiny" "$(look "result('dcgan-tiny')['command']")"
expect "where and when" "True 10" "$(look "result('dcgan-tiny')['machine'].endswith(f', {os.cpu_count()} cores'), len(result('dcgan-tiny')['date'])")"
expect "the picture" "(256, 96) P [0, 100, 200]" "$(look "picture('dcgan-tiny.png').size, end=' ')
print(picture('dcgan-tiny.png').mode, [picture('dcgan-tiny.png').convert('L').getpixel((255, y)) for y in (0, 40, 95)]")"
expect "that of a run that diverged" "(256, 64) [0, 2]" "$(look "picture('r3gan-tiny.png').size, result('r3gan-tiny')['rows']")"
expect "frames of the animation, and their size" "3 (356, 80)" "$(look "picture('long-runs.gif').n_frames, picture('long-runs.gif').size")"

long_runs dcgan-tiny,r3gan-tiny
expect "exit of a second call" 0 "$code"
expect "trainings of both" 2 "$(wc -l <"$TRAINED")"

# Ended while it trains; run folders of before are gone, as on another machine.
rm -r "$tmp/work"
WAITS=yes ended_at "$SLEEPS" "$python" "$root/scripts/measure/long_runs.py" --gantrain "$tmp/gantrain" --out "$tmp/out" --work "$tmp/work" \
  --kimg 4 --every 2 --presets pggan-tiny,dcgan-tiny
expect "exit of a script that was ended" 75 "$code"
expect "results of a training that is not at its end" "" "$(find "$tmp/out" -name 'pggan*')"
long_runs pggan-tiny,dcgan-tiny
expect "exit where it went on" 0 "$code"
expect "what was trained in all" "dcgan-tiny pggan-tiny pggan-tiny r3gan-tiny" "$(sort "$TRAINED" | tr '\n' ' ' | sed 's/ $//')"
expect "presets in their order" "['dcgan-tiny', 'pggan-tiny', 'r3gan-tiny']" "$(look "[row['preset'] for row in result('long-runs')]")"

long_runs stylegan1-tiny,dcgan-tiny
expect "exit where a training fails" 1 "$code"
grep -q "FAILED stylegan1-tiny: ended with 7: see $tmp/work/stylegan1-tiny.txt" "$tmp/said" || expect "where it is said" "the log" "$(cat "$tmp/said")"
expect "results with it" 3 "$(look "len(result('long-runs'))")"
