
# Names of sessions that run, and of their links.
function __fish_weir_names
    set -l words (commandline -opc)
    # The words between the command and the current word, without options. Their number decides
    # which names can follow.
    set -l before (string match -v -- '-*' $words[3..-1])
    switch "$words[2]:"(count $before)
        case '*:0'
            set -l names ($words[1] ps --names 2>/dev/null)
            printf '%s\n' $names
            if test "$words[2]" = change -a (count $names) = 1
                $words[1] ps --names $names[1] 2>/dev/null
                echo reset
            end
        case change:1
            $words[1] ps --names $before[1] 2>/dev/null
            echo reset
        case change:2
            echo reset
    end
end
for command in change stats stop top
    complete -c weir -n "__fish_weir_using_subcommand $command" -f -a '(__fish_weir_names)'
end
