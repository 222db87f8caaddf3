#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# guide_test.sh GANTRAIN: the pages of docs/ and the README. Blocks of sh run as they stand, each page in an empty folder; of
# those that cannot run here (```console, or <!-- not run: reason --> before the block) and of commands within sentences, verbs,
# flags and keys are looked up, and trainings are planned with --dry-run. Links, sizes, drawings and excerpts are checked.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ -e "${1:-}" ] || skip "the program was not built"
mkdir -p "$tmp/home" "$tmp/help"
# On a CPU, with one thread a rank, and with fewer pictures to measure with and to search; a batch script is for the cluster
# that its flags name. Modes are counted on a few pictures of two classes, not on 20,000.
quickly "$1"
program "$tmp/bin/gantrain" <<END
[ "\${*:1:2}" != "bench modes" ] || set -- "\$@" --data '$tmp/classes' --threads 1
case \${1:-} in
  slurm | kube) ;;
  *) export GANTRAIN_LAUNCH__DEVICE=cpu GANTRAIN_LAUNCH__THREADS=1 GANTRAIN_METRICS__IMAGES=64 GANTRAIN_DATA__SYNTH_SIZE=1024 ;;
esac
exec -a gantrain '$quick' "\$@"
END
export PATH=$tmp/bin:$PATH HOME=$tmp/home

# blocks PAGE FOLDER: each fenced block as FOLDER/NN.LANGUAGE; those that are only looked up end in .look, the others that
# nothing looks at in .none.
blocks() {
  mkdir -p "$2"
  awk -v folder="$2" '
    /^<!-- not run: ./ { mark = ".look" }
    /^<!-- not checked: ./ { mark = ".none" }
    /^```/ && !inside { inside = 1; name = sprintf("%s/%02d.%s%s", folder, ++n, substr($0, 4), mark); printf "" > name; next }
    /^```/ { inside = 0; mark = ""; close(name); next }
    inside { print > name }' "$1"
}

# commands FILE: the commands that a block shows, one a line: continued lines joined, prompts and remarks left out.
commands() {
  sed -e ':a' -e '/\\$/{N;s/\\\n */ /;ba' -e '}' "$1" | sed -e 's/^\$ //' -e 's/  *# .*$//' -e '/^#/d'
}

# spans PAGE: the code within sentences, one a line. In tables | is written \|.
spans() { awk '/^```/ { inside = !inside } !inside' "$1" | grep -oE '`[^`]+`' | tr -d '`' | sed 's/\\|/|/g'; }

verbs=$(gantrain --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
keys=$(gantrain help keys | grep -oE '^[a-zA-Z0-9_]+\.[a-zA-Z0-9_.]+' | sort -u)

# flags_of VERB...: the flags that its help lists.
flags_of() {
  local file="$tmp/help/$*"
  [ -s "$file" ] || { gantrain "$@" --help 2>&1 | grep -oE -- '(^| |,)--?[A-Za-z][A-Za-z0-9_-]*' | tr -d ' ,' | sort -u >"$file.new"; mv "$file.new" "$file"; }
  cat "$file"
}

# known_key NAME: whether --set NAME=... may be written; a recipe's name may be left out.
known_key() { grep -qxE "([a-z0-9]+\.)?${1//./\\.}" <<<"$keys"; }

# wrong WORD...: what is wrong in the arguments of gantrain; nothing if they are in order.
wrong() {
  local verb=(train) word rest=() flags planned=() skip_next='' dry=yes
  if grep -qx -- "${1:-}" <<<"$verbs"; then
    verb=("$1")
    shift
    case ${verb[0]} in
      data | presets | bench) [ $# = 0 ] || { verb+=("$1"); shift; } ;;
      help) return 0 ;;
    esac
  elif [[ ${1:-} == [a-z]* ]]; then
    echo "no verb $1"
    return
  fi
  flags=$(flags_of "${verb[@]}")
  for word; do
    if [ "$word" = -- ]; then # the training in a batch script, or a program of the user's own
      [ "${verb[0]}" != launch ] || return 0
      rest=("${@:$((${#rest[@]} + 2))}")
      wrong "${rest[@]}"
      return
    fi
    rest+=("$word")
    [[ $word == -[A-Za-z-]* ]] || continue
    grep -qx -- "${word%%=*}" <<<"$flags" || grep -qx -- "${word%%=*}" <<<"$([[ ! ${verb[*]} =~ ^(slurm|kube)$ ]] || flags_of train)" ||
      echo "gantrain ${verb[*]} has no ${word%%=*}"
  done
  [ "${verb[*]}" = train ] || return 0
  for word; do # without what is not here
    if [ -n "$skip_next" ]; then
      [[ $skip_next$word != --datasynth:* ]] || planned+=(--data "$word")
      skip_next=
      continue
    fi
    case $word in
      --data | --init-from | --run-dir | --resume | --config | --nodes | --detector | --features | --lite0) skip_next=$word ;;
      --smoke | ... | --help | -h | *[A-Z][A-Z]*) dry='' ;;
      *) planned+=("$word") ;;
    esac
  done
  [ -z "$dry" ] || [ ${#planned[@]} = 0 ] || gantrain "${planned[@]}" --dry-run >"$tmp/plan" 2>&1 || head -n 1 "$tmp/plan"
}

# look_up LINE: what is wrong in the command of gantrain that the line has, if it has one.
look_up() {
  local line=$1 words=()
  line=${line//.\/scripts\/run.sh/gantrain} line=${line//build\/gantrain/gantrain}
  [[ " $line" =~ [\ /]gantrain\ (.*)$ ]] || return 0
  line=${BASH_REMATCH[1]}
  line=${line%%;*} line=${line%% | *} line=${line%% > *} line=${line%% && *}
  mapfile -t words < <(xargs -n 1 printf '%s\n' <<<"$line" 2>/dev/null)
  words=("${words[@]%%|*}")
  ((${#words[@]} == 0)) || [[ ${words[0]} == [A-Z]* ]] || wrong "${words[@]}"
}

# Flags of other programs that pages name.
foreign='--standalone --local_rank --local-rank --component --shm-size --ulimit --only --pack --no-python --self-test --onnx --cfg --freezed --gradient_accumulation_steps --resume=network.pkl --official'

# faults PAGE: everything that is wrong in what cannot be run, one a line.
faults() {
  local folder file line word
  folder=$(mktemp -d "$tmp/blocks-XXXXXX")
  blocks "$1" "$folder"
  for file in "$folder"/*.console "$folder"/*.look; do
    [ -e "$file" ] || continue
    while IFS= read -r line; do look_up "$line"; done < <(commands "$file")
  done
  while IFS= read -r line; do
    case $line in
      gantrain\ *...* | *\[*) ;;
      gantrain\ * | ./scripts/run.sh\ *) look_up "$line" ;;
      --set\ [a-zA-Z]*=*)
        word=${line#--set }
        [[ $word == *KEY=* ]] || known_key "${word%%=*}" || echo "no key ${word%%=*}"
        ;;
      --[a-z]*)
        word=${line%% *}
        grep -qx -- "${word%%=*}" "$tmp/all_flags" || [[ " $foreign " == *" ${word} "* || " $foreign " == *" ${word%%=*} "* ]] ||
          echo "no flag ${word%%=*}"
        ;;
    esac
  done < <(spans "$1")
  awk '/^```/ { inside = !inside; next } !inside && gsub(/`/, "`") % 2 { print "code that goes on in the next line: " $0 }' "$1"
  while IFS= read -r line; do
    [ -e "$(dirname "$1")/$line" ] || echo "link to $line, which is not there"
  done < <(awk '/^```/ { inside = !inside } !inside' "$1" | grep -oE '\]\([^)#]+' | cut -c3- | grep -v '^https\?:')
}

for verb in $verbs; do
  case $verb in
    data) for part in inspect pack; do flags_of data $part; done ;;
    presets) for part in list show diff; do flags_of presets $part; done ;;
    bench) for part in step ops launch data save ddp modes; do flags_of bench $part; done ;;
    *) flags_of "$verb" ;;
  esac
done | sort -u >"$tmp/all_flags"

# --- what is wrong would be seen
cat >"$tmp/bad.md" <<'END'
Inline `gantrain generate --modle x` and `--kepp-best`, `--set G.adam.lt=1`, [a link](nowhere.md).
```console
$ gantrain --preset dcgan-tyni --run-dir x
$ torchrun --nproc_per_node 8 --no-python gantrain --preset dcgan --bacth 3
$ gantrain slurm --partitoin gpu --nodes 2 -- --preset stylegan2
$ gantrain slurm --partition gpu -- --preset stylegan2 --set stylegan2.gama=3
$ gantrain bench step --netz dcgan
```
END
expect "misspelled words are found" "10" "$(faults "$tmp/bad.md" | wc -l)"
printf '```sh\ngantrain presets lits\n```\n' >"$tmp/worse.md"

# --- the pages
pages=("$root/README.md" "$root"/docs/*.md)
[ ${#pages[@]} -gt 12 ] || expect "pages" "more than 12" "${#pages[@]}"
for page in "${pages[@]}"; do
  expect "what is wrong in ${page#"$root/"}" "" "$(faults "$page")"
  [ "$page" = "$root/README.md" ] || [ "$(wc -l <"$page")" -lt 150 ] || expect "lines of ${page#"$root/"}" "under 150" "$(wc -l <"$page")"
done
for picture in "$root"/docs/*.png; do
  [ "$(stat -c %s "$picture")" -le 61440 ] || expect "size of $picture" "60 KB at most" "$(stat -c %s "$picture")"
done
for page in "$root"/docs/*.md; do # each page is reached from the guide's index
  [ "$page" = "$root/docs/README.md" ] || grep -qF "($(basename "$page"))" "$root/docs/README.md" ||
    expect "${page#"$root/"} in docs/README.md" listed missing
done
grep -qF '(docs/README.md)' "$root/README.md" || expect "the README leads to the guide" yes no
if command -v python3 >/dev/null; then
  mkdir "$tmp/drawings"
  python3 "$root/docs/drawings.py" "$tmp/drawings"
  for drawing in "$tmp"/drawings/*.svg; do
    cmp -s "$drawing" "$root/docs/$(basename "$drawing")" || expect "docs/$(basename "$drawing")" "as drawings.py makes it" another
  done
fi

# --- excerpts of the example stand in its files
blocks "$root/docs/new-recipe.md" "$tmp/recipe"
example=$(cat "$root"/docs/example/recipes/mlp/* "$root"/docs/example/presets/* "$root"/docs/example/test/recipes/mlp/*)
for excerpt in "$tmp"/recipe/*.cpp "$tmp"/recipe/*.json; do
  [[ $example == *"$(cat "$excerpt")"* ]] || expect "an excerpt of new-recipe.md" "in docs/example" "$(cat "$excerpt")"
done

# --- blocks that run, two pages at a time
gantrain --preset dcgan-tiny --set data.channels=1 --kimg 0 --metrics none --run-dir "$tmp/of_classes" 2>"$tmp/log" || cat "$tmp/log" >&2
for class in one other; do gantrain generate -q "$tmp/of_classes" --seeds 0-7 --outdir "$tmp/classes/$class"; done
# run PAGE: its sh blocks one after the other, in an empty folder.
run() {
  local name folder
  name=$(basename "$1" .md)
  folder=$tmp/run/$name-$(basename "$(dirname "$1")")
  blocks "$1" "$folder.blocks"
  mkdir -p "$folder"
  cd "$folder"
  for block in "$folder.blocks"/*.sh; do
    [ -e "$block" ] || return 0
    bash -euo pipefail "$block" </dev/null >"$folder.log" 2>&1 ||
      { echo "$1, block $(basename "$block"):"; cat "$block"; tail -n 20 "$folder.log"; return 1; }
  done
}
export -f run blocks
export tmp
! run "$tmp/worse.md" >/dev/null || expect "a command that fails" seen "not seen"
printf '%s\0' "${pages[@]}" | xargs -0 -P 2 -I{} bash -c 'run "$1" || exit 255' - {} || expect "every block runs" yes no
