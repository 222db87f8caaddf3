#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Completion in real shells, and the manual pages.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
[ -e "${1:-}" ] || skip "the program was not built"
program=$(realpath "$1")
mkdir -p "$tmp/bin" "$tmp/work/pictures"
ln -s "$program" "$tmp/bin/gantrain"
export PATH=$tmp/bin:$PATH
touch "$tmp/work/model one.safetensors"
cd "$tmp/work"

# --- what all shells ask
answers() { gantrain help --complete gantrain "$@" | cut -f1 | paste -sd' ' -; }
expect "verbs by their beginning" "generate" "$(answers gen)"
expect "every verb" "$(gantrain --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | xargs)" "$(answers '')"
expect "presets" "$(gantrain presets list | cut -d' ' -f1 | grep ^stylegan2 | xargs)" "$(answers --preset stylegan2)"
expect "presets behind =" "--preset=dcgan --preset=dcgan-tiny" "$(answers --preset=dcgan | tr " " "\n" | sort | xargs)"
expect "the keys of a recipe" "$(gantrain help keys | grep -o '^dcgan[^ ]*' | sort -u | sed 's/$/=/' | xargs)" \
  "$(answers train --set dcgan. | tr ' ' '\n' | sort | xargs)"
expect "the preset's own keys alone" "" "$(answers --preset stylegan2 --set dcgan.)"
expect "values of a key" "dcgan.norm=batch dcgan.norm=none" "$(answers --set dcgan.norm=)"
expect "values of a flag" "cpu cuda" "$(answers --device c)"
expect "parts of a verb" "inspect" "$(answers data in)"
expect "flags of a part" "--sheet" "$(answers data inspect --sh)"
expect "files" ":files" "$(answers generate --model '')"
expect "built-in data beside files" "synth:shapes :files" "$(answers --data '')"
expect "flags of the training in a batch script" "--preset" "$(answers slurm --nodes 2 -- --pres)"
expect "and in a manifest for Kubernetes" "--preset" "$(answers kube --nnodes 2 -- --pres)"
expect "topics of help" "keys" "$(answers help ke)"
expect "every topic of help" "" "$(comm -23 <(gantrain help | grep -oE '^  [a-z]+' | xargs -n1 | sort) \
  <(answers help '' | tr ' ' '\n' | sort))"
expect "verbs are topics of help, each with one line" "metrics train" "$(answers help metr) $(answers help trai)"
expect "each flag once" "--help" "$(answers --he)"
expect "nothing for a number" "" "$(answers --batch '')"
expect "nothing for an unknown verb" "" "$(answers nonsense '')"
expect "the program's own description flag is a word like any other" "" "$(answers --describe-flags '')"

# --- bash
gantrain help --completion bash >"$tmp/bash"
cat >"$tmp/ask.bash" <<'END'
# ask LINE: what Tab offers at its end, split into words as bash does.
. "$1"
shift
ask() {
  local IFS=' '
  local with_breaks=${1//=/ = }
  with_breaks=${with_breaks//:/ : }
  read -ra COMP_WORDS <<<"$with_breaks"
  [[ $1 == *' ' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _gantrain 2>/dev/null # compopt has no completion to change here
  printf '%s|' "${COMPREPLY[@]}"
}
complete -p gantrain
ask "$1"
END
tab() { bash --norc "$tmp/ask.bash" "$tmp/bash" "$1" | tail -n 1; }
expect "bash knows who completes" "complete -F _gantrain gantrain" \
  "$(bash --norc "$tmp/ask.bash" "$tmp/bash" 'gantrain ' | head -n 1)"
expect "bash: a preset" "wgan-gp|" "$(tab 'gantrain --preset wg')"
expect "bash: a preset in one word" "wgan-gp|" "$(tab 'gantrain --preset=wg')"
expect "bash: a key" "dcgan.latent=|" "$(tab 'gantrain train --set dcgan.lat')"
expect "bash: a key's value, behind the = that bash breaks words at" "batch|none|" \
  "$(tab 'gantrain train --set dcgan.norm=')"
expect "bash: the beginning of a value" "none|" "$(tab 'gantrain train --set dcgan.norm=n')"
expect "bash: behind a colon" "shapes|" "$(tab 'gantrain --data synth:sh')"
expect "bash: a file whose name has a blank" "model one.safetensors|" "$(tab 'gantrain generate --model mo')"
expect "bash: a file behind =" "pictures|" "$(tab 'gantrain --data=pic')"

# --- zsh, fish
gantrain help --completion zsh >"$tmp/_gantrain"
gantrain help --completion fish >"$tmp/gantrain.fish"
if command -v zsh >/dev/null; then
  zsh -n "$tmp/_gantrain" || expect "zsh reads it" "" "syntax"
  # The functions that offer are stood in for: they print what they were given.
  expect "zsh: presets, keys and files" "wgan-gp|dcgan.latent=|files|" "$(zsh -f -c '
    compdef() { :; }; compset() { :; }
    _describe() { local word; for word in "${(@P)2}"; do printf "%s|" "${word%%:*}"; done; }
    _files() { printf "files|"; }
    . '"$tmp/_gantrain"'
    words=(gantrain --preset wg) CURRENT=3; _gantrain
    words=(gantrain --set dcgan.lat) CURRENT=3; _gantrain
    words=(gantrain generate --model x) CURRENT=4; _gantrain')"
fi
if command -v fish >/dev/null; then
  offered() { fish --no-config -c "source $tmp/gantrain.fish; complete -C '$1'" | cut -f1 | xargs; }
  export HOME=$tmp
  expect "fish: presets" "wgan-gp" "$(offered 'gantrain --preset wg')"
  expect "fish: verbs" "generate" "$(offered 'gantrain gen')"
  expect "fish: a key" "dcgan.latent=" "$(offered 'gantrain --set dcgan.lat')"
  expect "fish: files" "pictures/" "$(offered 'gantrain data inspect pic')"
fi
code=0; said=$(gantrain help --completion tcsh 2>&1) || code=$?
expect "another shell is refused" "2 there is bash, zsh, fish" "$code $(grep -o 'there is .*' <<<"$said")"

# --- the manual pages
gantrain help --install "$tmp/prefix"
expect "one page for each command" "$(find "$tmp/prefix/share/man/man1" -name 'gantrain*.1' | wc -l)" \
  "$(($(gantrain help --man | grep -c '^\\fBgantrain\\-.*(1)') + 1))"
if command -v groff >/dev/null; then
  for page in "$tmp"/prefix/share/man/man1/*.1; do
    expect "groff reads ${page##*/} without a warning" "" "$(groff -man -Tutf8 -Kutf8 -ww "$page" 2>&1 >/dev/null)"
  done
  shown=$(groff -man -Tascii -Kutf8 -P-cbou "$tmp/prefix/share/man/man1/gantrain.1")
  for code in 0 4 75 128+n; do
    expect "exit code $code" "1" "$(sed -n '/^EXIT/,/^EXAMPLES/p' <<<"$shown" | grep -cE "^ +${code/+/\\+} ")"
  done
  expect "every topic of help stands in the page" "$(gantrain help | grep -c '^  [a-z]')" \
    "$(sed -n '/^TOPICS/,/^ENVIRONMENT/p' <<<"$shown" | grep -c '^ *gantrain help [a-z]*')"
  expect "every flag of the training stands in the page" "" \
    "$(comm -23 <(gantrain train --help | grep -oE '^ +(-[a-z],)?--[a-z_-]+' | grep -o -- '--.*' | sort -u) \
      <(grep -oE -- '--[a-z_-]+' <<<"$shown" | sort -u))"
fi
code=0; said=$(gantrain help --install /proc/nowhere 2>&1) || code=$?
expect "a folder that cannot be written is named" "8 /proc/nowhere" "$code $(grep -o '/proc/nowhere' <<<"$said" | head -n 1)"
