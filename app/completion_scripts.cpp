// SPDX-License-Identifier: Apache-2.0
// What the shells are told: to ask the program itself, which knows its flags, presets and keys.
#include "completion.h"
#include "util/error.h"

namespace gantrain {

namespace {

constexpr const char* kBash =
    R"(# bash completion for gantrain: made by gantrain help --completion bash
_gantrain() {
  local i word about files='' lead='' typed words=("${COMP_WORDS[0]}")
  # Bash takes = and : for words of their own; gantrain's key=value is one.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == [=:]* || ${COMP_WORDS[i - 1]} == *[=:] ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
  done
  typed=${words[${#words[@]} - 1]}
  case $typed in *[=:]*) lead=${typed%"${typed##*[=:]}"} ;; esac
  COMPREPLY=()
  while IFS=$'\t' read -r word about; do
    if [[ $word == :files ]]; then
      files=1
    else
      COMPREPLY+=("${word#"$lead"}")
    fi
  done < <("${words[0]/#\~/$HOME}" help --complete "${words[@]}" 2>/dev/null)
  if [[ -n $files ]]; then
    compopt -o filenames
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "${typed#"$lead"}")
  elif [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace
  fi
}
complete -F _gantrain gantrain
)";

constexpr const char* kZsh = R"(#compdef gantrain
# zsh completion for gantrain: made by gantrain help --completion zsh
_gantrain() {
  local line word about files
  local -a whole open
  for line in "${(@f)$(${~words[1]} help --complete "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*}
    about=${line#*$'\t'}
    case $word in
      '') ;;
      :files) files=1 ;;
      *=) open+=("${word//:/\\:}:$about") ;;
      *) whole+=("${word//:/\\:}:$about") ;;
    esac
  done
  (( $#open )) && _describe gantrain open -S ''
  (( $#whole )) && _describe gantrain whole
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ ${funcstack[1]} == _gantrain ]]; then _gantrain "$@"; else compdef _gantrain gantrain; fi
)";

constexpr const char* kFish =
    R"(# fish completion for gantrain: made by gantrain help --completion fish
function __gantrain_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($words[1] help --complete $words "$typed" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- "$typed")
        else
            echo $line
        end
    end
end
complete -c gantrain -f -a '(__gantrain_complete)'
)";

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  fail(Exit::kUsage, "--completion {}: there is bash, zsh, fish", shell);
}

}  // namespace gantrain
