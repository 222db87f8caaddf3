#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The workflow of GitHub Actions does not rot: each command of it names a script that exists with words
# that it takes, and what costs nothing is run.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
workflow=$root/.github/workflows/ci.yml
commands=$(sed -n 's/^ *run: //p' "$workflow")
expect "every step's command is one line" "" "$(grep -nE '^ *(- )?run: *[|>]' "$workflow" || true)"
expect "no tab, which YAML refuses" "" "$(grep -n "$(printf '\t')" "$workflow" || true)"
if python3 -c 'import yaml' 2>/dev/null; then
  expect "it is YAML, with the commands that are found here" "$commands" "$(python3 - "$workflow" <<'PY'
import sys, yaml
for job in yaml.safe_load(open(sys.argv[1]))["jobs"].values():
    for step in job["steps"]:
        if "run" in step:
            print(step["run"])
PY
  )"
fi

# --- one command after the other, in a copy of the scripts whose costly ends are stood in for
copy=$tmp/copy
mkdir -p "$copy/build" "$tmp/bin"
cp -r "$root/scripts" "$root/LICENSE" "$root/README.md" "$copy/"
for tool in cmake ninja ctest apt-get; do
  program "$tmp/bin/$tool" <<'END'
echo "${0##*/} $*" >>"$WORKFLOW_LOG"
END
done
# need_packages and the downloads are tested by setup_test.sh.
cat >"$tmp/stand_in.sh" <<'END'
need_packages() { echo "need $*" >>"$WORKFLOW_LOG"; }
setup_libtorch() { :; }
setup_python() { :; }
has_gpu() { false; }
END
for script in setup.sh setup_python.sh; do
  sed -i "\$a . '$tmp/stand_in.sh'" "$copy/scripts/$script"
done
program "$copy/build/gantrain" <<'END'
echo "gantrain $*" >>"$WORKFLOW_LOG"
[ "$1" != --version ] || echo "gantrain 9.9.9"
END
export WORKFLOW_LOG=$tmp/log PATH=$tmp/bin:$PATH GANTRAIN_CUDA=OFF GANTRAIN_CACHE_DIR=$tmp/cache
mkdir -p "$tmp/cache"
cd "$copy"
run() { # run COMMAND: what its tools were asked for
  : >"$WORKFLOW_LOG"
  code=0; said=$(bash -c "$1" 2>&1 </dev/null) || code=$?
}
for wanted in build.sh run.sh test.sh package.sh; do
  expect "a step calls $wanted" "1" "$(grep -q "scripts/$wanted" <<<"$commands" && echo 1)"
done
while read -r command; do
  run "$command"
  case $command in
    *apt-get*)
      expect "$command" "0 2" "$code $(grep -c '^apt-get' "$tmp/log")" ;;
    *scripts/build.sh*)
      expect "$command: $said" "0 1" "$code $(grep -c '^cmake --build .* gantrain_program' "$tmp/log")" ;;
    *scripts/run.sh*)
      expect "$command: $said" "0 gantrain --smoke" "$code $(grep '^gantrain' "$tmp/log")" ;;
    *scripts/test.sh*)
      expect "$command: $said" "0 1" "$code $(grep -c '^ctest ' "$tmp/log")" ;;
    *scripts/package.sh*)
      # Its words are taken and the build is made; a stand-in's build has no trainer library.
      expect "$command: $said" "4 has no libgantrain_trainer.so 1" \
        "$code $(grep -o 'has no libgantrain_trainer.so' <<<"$said") $(grep -c '^cmake --build .* gantrain_program' "$tmp/log")"
      expect "$command obeys GANTRAIN_CUDA" 1 "$(grep -c '^cmake -S .* -DGANTRAIN_CUDA=OFF' "$tmp/log")" ;;
    *) expect "a command that this test knows" "" "$command" ;;
  esac
done <<<"$commands"
