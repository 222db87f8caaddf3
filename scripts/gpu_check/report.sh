# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# How gpu_check.sh notes what it finds, and what it has not to do again. Sourced.
#   DIR/results.jsonl: a line for each call, for the begin and the end of each step, for each result.
part='' step=''
late=0     # 1: the part's time was over before the step's end
deadline=0 # second of the shell's clock after which nothing of the part begins or goes on

json_text() { # a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}
note() { printf '%s\n' "$1" >>"$out/results.jsonl"; }
note_step() { note "{\"part\": \"$part\", \"step\": \"$step\", \"$1\": true}"; }
results() { python3 "$root/scripts/gpu_check/results.py" "$@"; }

note_call() {
  local commit
  commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || cat "$root/COMMIT" 2>/dev/null || echo unknown)
  note "$(printf '{"call": {"date": %s, "gpu": %s, "driver": %s, "commit": %s, "program": %s, "command": %s}}' \
    "$(json_text "$(date -u +%FT%TZ)")" "$(json_text "${gpu_name:-none}")" "$(json_text "${driver:-none}")" \
    "$(json_text "$commit")" "$(json_text "$gantrain")" "$(json_text "$command_line")")"
}
begin_step() { step=$1 late=0 skipped=0 && note_step begun; }
# A step with a skipped check is tried again by the next call.
end_step() {
  if ((late)); then
    printf '%-7s %-44s %s\n' LATE "$part: $step" "the part's time is over: the same command goes on" >&2
  elif ((skipped == 0)); then
    note_step finished
  fi
}

# wanted STEP: whether --steps names it. `matched`: whether it has named any.
matched=''
wanted() {
  local pattern
  local -a patterns
  IFS=, read -ra patterns <<<"$steps"
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053 # a pattern
    [[ $1 != $pattern ]] || { matched=yes && return 0; }
  done
  return 1
}
# steps FUNCTION...: runs step_FUNCTION for each that is wanted and not finished.
steps() {
  local name
  for name; do
    wanted "$name" || continue
    if [ -z "$again" ] && results finished "$out/results.jsonl" "$part" "$name"; then
      printf '%-7s %-44s\n' 'done' "$part: $name" >&2
      continue
    fi
    begin_step "$name"
    if ((SECONDS < deadline)); then "step_$name" || true; else late=1; fi
    end_step
  done
}
# gpu_steps FUNCTION...: the same; skipped where there is no GPU.
gpu_steps() {
  local name
  if ((gpus > 0)); then steps "$@"; return; fi
  for name; do
    wanted "$name" || continue
    begin_step "$name"
    skip_check "$name" "$why_no_gpu"
  done
}

row() { # row NAME VERDICT SECONDS TEXT [NUMBER]
  local text=${4//[$'\t\n\r']/ }
  ((late)) && return
  note "$(printf '{"part": "%s", "step": "%s", "check": %s, "verdict": "%s", "seconds": %s, "text": %s%s}' "$part" "$step" \
    "$(json_text "$1")" "$2" "$3" "$(json_text "${text:0:300}")" "${5:+, \"value\": $5}")"
  printf '%-7s %-44s %s\n' "$2" "$1" "${text:0:160}" >&2
}
skip_check() { row "$1" SKIP 0 "$2"; skipped=1; }
# figure NAME TEXT [NUMBER]; one that could not be measured is a failure.
figure() { if [ -n "$2" ]; then row "$1" FIGURE 0 "$2" "${3:-}"; else row "$1" FAIL 0 "not measured: $(last_line)"; fi; }
# The number of a figure of this call or a former one.
figure_value() { results value "$out/results.jsonl" "$1"; }

# run_limited SECONDS COMMAND...: sets output, status and spent. No command outlives its limit, nor the part's.
run_limited() {
  local limit=$1 left=$((deadline - SECONDS)) began=$SECONDS file cut=0
  shift
  ((limit <= left)) || { limit=$left cut=1; }
  output="the time of the part is over" status=124 spent=0
  ((limit > 0)) || { late=1; return 0; }
  file=$(mktemp "$runs/.output-XXXXXX")
  status=0
  # A function of these scripts runs in a shell of its own, which can be ended.
  if declare -F "$1" >/dev/null; then
    # shellcheck disable=SC2016 # for that shell
    set -- bash -c '"$@"' function "$@"
  fi
  timeout -k 10 "$limit" "$@" >"$file" 2>&1 </dev/null || status=$?
  output=$(tr -d '\000' <"$file")
  spent=$((SECONDS - began))
  { echo "== $part $step: $* -> $status, $spent s"; head -c 3000 "$file"; echo; tail -c +3001 "$file" | tail -c 9000; } >>"$out/log.txt"
  rm -f "$file"
  if ((cut)) && { [ "$status" = 124 ] || [ "$status" = 137 ]; }; then late=1; fi
}

last_line() { printf '%s' "$output" | grep -v '^$' | tail -n 1; }
# answer: the last line of a benchmark, kept in its own words.
answer() {
  local line
  line=$(last_line)
  [[ $line != '{'* ]] || printf '{"step": "%s", "answer": %s}\n' "$step" "$line" >>"$out/answers.jsonl"
  printf '%s' "$line"
}

# check NAME SECONDS COMMAND...: passes if the command ends with 0 (77: skipped, as its last line says). A
# test that was skipped where there is a GPU is a failure, whatever its reason.
check() {
  local name=$1
  run_limited "${@:2}"
  if ((gpus > 0)) && grep -q 'skipped: ' <<<"$output"; then
    row "$name" FAIL "$spent" "although there is a GPU, $(grep -m 1 -o 'skipped: .*' <<<"$output")"
    return 1
  fi
  case $status in
    0) row "$name" PASS "$spent" "$(grep -m 1 '^differs ' <<<"$output")" ;;
    77) skip_check "$name" "$(last_line)" ;;
    124 | 137) row "$name" FAIL "$spent" "took longer than it may: $(last_line)" ;;
    *) row "$name" FAIL "$spent" "exit $status: $(last_line)" ;;
  esac
  ((status == 0))
}

# check_fails NAME CODE TEXT SECONDS COMMAND...: passes if the command ends with that exit code and its
# output has the text (an extended regular expression).
check_fails() {
  local name=$1 code=$2 text=$3
  run_limited "${@:4}"
  if [ "$status" != "$code" ]; then
    row "$name" FAIL "$spent" "exit $status instead of $code: $(last_line)"
  elif ! grep -Eq -- "$text" <<<"$output"; then
    row "$name" FAIL "$spent" "says nothing of \"$text\": $(last_line)"
  else
    row "$name" PASS "$spent" "$(grep -E -- "$text" <<<"$output" | head -n 1)"
  fi
}

# number JSON_TEXT EXPRESSION: a Python expression of the value `j`, or nothing.
number() {
  python3 -c 'import json, sys
j = json.loads(sys.argv[1])
print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null || true
}
# at_most NAME VALUE LIMIT TEXT: a verdict on a measured number.
at_most() {
  if [ -z "$2" ]; then
    row "$1" FAIL 0 "not measured"
  elif python3 -c 'import sys; sys.exit(not float(sys.argv[1]) <= float(sys.argv[2]))' "$2" "$3"; then
    row "$1" PASS 0 "$4"
  else
    row "$1" FAIL 0 "$4: more than $3"
  fi
}
ratio() { [ -n "$1" ] && [ -n "$2" ] && python3 -c 'import sys; print("%.3f" % (float(sys.argv[1]) / float(sys.argv[2])))' "$1" "$2"; }

# Writes table.txt and gpu_check.json, prints the table; its status is the exit code.
show() {
  local code=0
  results show "$out/results.jsonl" "$out/gpu_check.json" >"$out/table.new" || code=$?
  mv "$out/table.new" "$out/table.txt"
  cat "$out/table.txt"
  return "$code"
}
