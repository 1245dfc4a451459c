# bash completion for steptune; completion/make.sh fills in the rows

# COMMAND|NAMES|KIND|WORDS of every option and of the arguments.
_steptune_rows='
@ROWS@
'

# Sets kind and words to those of the option $2, or of the arguments, of the
# command $1.
_steptune_find() {
	local row_command names
	while IFS='|' read -r row_command names kind words; do
		[[ $row_command == "$1" && " $names " == *" $2 "* ]] && return
	done <<<"$_steptune_rows"
	kind=none words=
	return 1
}

# Prints a field of all rows: 1 is the command, 2 the names; of the command $2.
_steptune_field() {
	local row_command names rest
	while IFS='|' read -r row_command names rest; do
		if [[ $1 == 1 && $names == arguments ]]; then
			printf '%s\n' "$row_command"
		elif [[ $1 == 2 && $row_command == "$2" && $names == -* ]]; then
			printf '%s\n' $names
		fi
	done <<<"$_steptune_rows"
}

# Completes $3 as a word of kind $1, of the words $2.
_steptune_fill() {
	local prefix=
	case $1 in
	file | folder)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen "$([[ $1 == file ]] && echo -f || echo -d)" -- "$3")
		return
		;;
	machine)
		set -- word "$(${COMP_WORDS[0]} machines 2>/dev/null | sed -n '1d;s/^\([^ ]\{1,\}\) .*/\1/p')" "$3"
		;;
	list) [[ $3 == *,* ]] && prefix=${3%,*}, ;;
	esac
	mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$2" -- "${3#"$prefix"}")
}

# Completes the command of a user, whose first word has the index $1.
_steptune_job() {
	if ((COMP_CWORD == $1)); then
		mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
	elif declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	else
		_steptune_fill file '' "${COMP_WORDS[COMP_CWORD]}"
	fi
}

# Prints the index of the word after which there are no options: of the first
# argument if these are a user's command, else of --; nothing if there is none.
_steptune_end() {
	local i kind words takes
	_steptune_find "$1" arguments
	takes=$kind
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--)
			echo $((i + 1))
			return
			;;
		-*)
			_steptune_find "$1" "${COMP_WORDS[i]}" && [[ $kind != none ]] &&
				((i += 1 + ($([[ ${COMP_WORDS[i + 1]} == = ]] && echo 1 || echo 0))))
			;;
		*)
			[[ $takes != command ]] || { echo "$i"; return; }
			;;
		esac
	done
}

_steptune() {
	local command=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]}
	local option=${COMP_WORDS[COMP_CWORD - 1]} before= end kind words
	COMPREPLY=()
	if ((COMP_CWORD == 1)) || [[ $command == help ]]; then
		((COMP_CWORD > 2)) && return
		_steptune_fill word "$(_steptune_field 1) help --help --version" "$cur"
		return
	fi
	# --name=value is three words
	if [[ $cur == = ]]; then
		cur=
	elif [[ $option == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $cur == --*=* ]]; then # one, where = breaks no words
		option=${cur%%=*} before=$option= cur=${cur#*=}
	fi
	end=$(_steptune_end "$command")
	_steptune_find "$command" arguments
	if [[ -n $end && $kind == command ]]; then
		_steptune_job "$end"
		return
	elif [[ -z $end && $option == -* ]] && _steptune_find "$command" "$option" && [[ $kind != none ]]; then
		_steptune_fill "$kind" "$words" "$cur"
		COMPREPLY=("${COMPREPLY[@]/#/$before}")
		return
	elif [[ -z $end && $cur == -* ]]; then
		_steptune_fill word "$(_steptune_field 2 "$command")" "$cur"
		return
	fi
	_steptune_find "$command" arguments
	case $kind in
	command) _steptune_job "$COMP_CWORD" ;;
	none) ;;
	*) _steptune_fill "$kind" '' "$cur" ;;
	esac
}
complete -F _steptune steptune
