# Names of sessions that run, and of their links. The number of words between the command and the
# current word, without options, decides which names can follow.
_weir() {
    local -a before names
    if (( CURRENT < 3 )) || [[ ! $words[2] == (change|stats|stop|top) || $words[CURRENT] == -* ]]; then
        _weir_options "$@"
        return
    fi
    before=(${(Q)${words[3,CURRENT-1]}:#-*})
    case $words[2]:$#before in
        (*:0)
            names=(${(f)"$($words[1] ps --names 2>/dev/null)"})
            if [[ $words[2] == change && $#names == 1 ]]; then
                names+=(${(f)"$($words[1] ps --names $names[1] 2>/dev/null)"} reset)
            fi
            ;;
        (change:1) names=(${(f)"$($words[1] ps --names $before[1] 2>/dev/null)"} reset) ;;
        (change:2) names=(reset) ;;
    esac
    compadd -a names
}

