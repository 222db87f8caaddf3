# bash completion for gantrain: made by gantrain help --completion bash
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
