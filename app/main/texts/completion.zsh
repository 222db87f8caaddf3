#compdef gantrain
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
