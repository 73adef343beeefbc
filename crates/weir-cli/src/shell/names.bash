
# Names of sessions that run, and of their links.
_weir_names() {
    local command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} word name
    local -a before=() names=()
    case $command:$current in
        change:-* | stats:-* | stop:-* | top:-*) _weir "$@"; return ;;
        change:* | stats:* | stop:* | top:*) ;;
        *) _weir "$@"; return ;;
    esac
    (( COMP_CWORD > 1 )) || { _weir "$@"; return; }
    # The words between the command and the current word, without options. Their number decides
    # which names can follow.
    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        [[ $word == -* ]] || before+=("$word")
    done
    case $command:${#before[@]} in
        *:0)
            mapfile -t names < <("$1" ps --names 2>/dev/null)
            if [[ $command == change && ${#names[@]} == 1 ]]; then
                mapfile -t -O 1 names < <("$1" ps --names "${names[0]}" 2>/dev/null)
                names+=(reset)
            fi
            ;;
        change:1)
            mapfile -t names < <("$1" ps --names "${before[0]}" 2>/dev/null)
            names+=(reset)
            ;;
        change:2) names=(reset) ;;
    esac
    COMPREPLY=()
    for name in "${names[@]}"; do
        [[ $name != "$current"* ]] || COMPREPLY+=("$(printf %q "$name")")
    done
}
complete -F _weir_names -o bashdefault -o default weir
