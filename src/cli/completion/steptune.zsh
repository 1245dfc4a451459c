#compdef steptune
# zsh completion for steptune; completion/make.sh fills in commands and options

_steptune_machines() {
	local -a names
	names=(${(f)"$(steptune machines 2>/dev/null | sed -n '1d;s/^\([^ ]\{1,\}\) .*/\1/p')"})
	compadd -a names
}

_steptune() {
	local -a specs commands
	commands=(
@COMMANDS@
	)
	if ((CURRENT == 2)) || [[ $words[2] == help ]]; then
		_describe command commands
		return
	fi
	shift words
	((CURRENT--))
	case $words[1] in
@SPECS@
	esac
	_arguments -s -S "$specs[@]"
}

_steptune "$@"
