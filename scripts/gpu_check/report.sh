# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: Apache-2.0
# How gpu_check.sh notes what it finds: check, figure and skip add rows; print_table and write_json
# show them. Sourced.
rows=() # section <tab> name <tab> verdict <tab> seconds <tab> text
section=
deadline=0 # second of the shell's clock after which nothing new begins

row() { # row NAME VERDICT SECONDS TEXT
  local text=${4//[$'\t\n\r']/ }
  rows+=("$section"$'\t'"$1"$'\t'"$2"$'\t'"$3"$'\t'"${text:0:300}")
  printf '%-7s %-44s %s\n' "$2" "$1" "${text:0:160}" >&2
}
skip_check() { row "$1" SKIP 0 "$2"; }
# A figure that could not be measured is a failure.
figure() { if [ -n "$2" ]; then row "$1" FIGURE 0 "$2"; else row "$1" FAIL 0 "not measured: $(last_line)"; fi; }

# run_limited SECONDS COMMAND...: sets output, status and spent. No command outlives its limit.
run_limited() {
  local limit=$1 left=$((deadline - SECONDS)) began=$SECONDS file
  shift
  ((limit < left)) || limit=$left
  output="the time of the whole check is over" status=124 spent=0
  ((limit > 0)) || return 0
  file=$(mktemp "$out/.output-XXXXXX")
  status=0
  # A function of these scripts runs in a shell of its own, which can be ended.
  if declare -F "$1" >/dev/null; then
    # shellcheck disable=SC2016 # for that shell
    set -- bash -c '"$@"' function "$@"
  fi
  timeout -k 10 "$limit" "$@" >"$file" 2>&1 </dev/null || status=$?
  output=$(<"$file")
  spent=$((SECONDS - began))
  { echo "== $section: $* -> $status"; cat "$file"; } >>"$out/log.txt"
  rm -f "$file"
}

last_line() { printf '%s' "$output" | grep -v '^$' | tail -n 1; }

# check NAME SECONDS COMMAND...: passes if the command ends with 0 (77: skipped, as its last line says).
check() {
  local name=$1
  run_limited "${@:2}"
  if ((gpus > 0)) && grep -q 'skipped: no GPU' <<<"$output"; then
    row "$name" FAIL "$spent" "skipped although there is a GPU: $(grep -m 1 'skipped: no GPU' <<<"$output")"
    return 1
  fi
  case $status in
    0) row "$name" PASS "$spent" "" ;;
    77) row "$name" SKIP "$spent" "$(last_line)" ;;
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

count_of() { printf '%s\n' "${rows[@]}" | cut -f3 | grep -c "^$1\$" || true; }

print_table() {
  local line
  printf '\n%-14s %-44s %-7s %7s  %s\n' part check verdict seconds what
  for line in "${rows[@]}"; do
    IFS=$'\t' read -r part name verdict seconds text <<<"$line"
    printf '%-14s %-44s %-7s %7s  %s\n' "$part" "$name" "$verdict" "$seconds" "$text"
  done
  printf '\n%s passed, %s failed, %s skipped, %s figures, in %s s\n' "$(count_of PASS)" "$(count_of FAIL)" \
    "$(count_of SKIP)" "$(count_of FIGURE)" "$SECONDS"
}

json_text() { # a JSON string
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}
write_json() { # write_json FILE
  local line comma=
  {
    printf '{"date": %s, "gpu": %s, "driver": %s, "commit": %s, "program": %s, "command": %s, "seconds": %s, "failed": %s, "checks": [' \
      "$(json_text "$(date -u +%FT%TZ)")" "$(json_text "${gpu_name:-none}")" "$(json_text "${driver:-none}")" \
      "$(json_text "$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)")" "$(json_text "$gantrain")" \
      "$(json_text "$command_line")" "$SECONDS" "$(count_of FAIL)"
    for line in "${rows[@]}"; do
      IFS=$'\t' read -r part name verdict seconds text <<<"$line"
      printf '%s\n  {"part": %s, "check": %s, "verdict": %s, "seconds": %s, "text": %s}' "$comma" \
        "$(json_text "$part")" "$(json_text "$name")" "$(json_text "$verdict")" "$seconds" "$(json_text "$text")"
      comma=,
    done
    printf '\n]}\n'
  } >"$1.new"
  mv "$1.new" "$1"
}
