# fish completion for gantrain: made by gantrain help --completion fish
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
