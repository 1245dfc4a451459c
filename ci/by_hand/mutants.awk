# mutants.awk - every change of one operator, constant or statement of C files:
#
#   awk -f ci/by_hand/mutants.awk FILE...
#
# prints a line each: FILE, the line's number, the column and length of what is
# replaced, the replacement, and the mutant's name, separated by tabs.  A name is
# FILE: LINE'S TEXT: FROM -> TO, with #N for the N-th such in the file, so that
# it stays when lines move.  Three forms are left out, since they change nothing:
# a larger calloc(), other numbers in "? -1 : 1;", whose sign alone counts, and "<="
# for "<" in "a < b ? a : b".
BEGIN {
	FS = "\n"
	OFS = "\t"
	n_swaps = split("== != < <= > >= && || + - | & += -= ++ --", from, " ")
	split("!= == <= < >= > || && - + & | -= += -- ++", to, " ")
	# these stand between blanks where they are binary
	for (i = 1; i <= n_swaps; i++)
		blanks[i] = from[i] !~ /^(\+\+|--)$/
}
FNR == 1 {
	in_comment = 0
	ends = 1
	split("", seen)
}

# The line with blanks for comments and for what strings and characters hold.
function mask(line, out, i, c, quote) {
	out = ""
	quote = ""
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (in_comment) {
			if (c == "*" && substr(line, i + 1, 1) == "/") {
				in_comment = 0
				out = out " "
				i++
			}
			c = " "
		} else if (quote != "") {
			if (c == "\\") {
				out = out " "
				i++
			} else if (c == quote)
				quote = ""
			c = "\""
		} else if (c == "/" && substr(line, i + 1, 1) == "*") {
			in_comment = 1
			out = out " "
			i++
			c = " "
		} else if (c == "/" && substr(line, i + 1, 1) == "/")
			return out
		else if (c == "\"" || c == "'") {
			quote = c
			c = "\""
		}
		out = out c
	}
	return out
}

function emit(column, size, text, what, key) {
	key = trimmed ": " what
	seen[key]++
	print FILENAME, FNR, column, size, text, FILENAME ": " key \
		(seen[key] > 1 ? " #" seen[key] : "")
}

# Whether the operator at this place chooses the smaller or larger of two values, as
# in "a < b ? a : b".
function chooses(at, size, value, left, right, rest) {
	value = "[A-Za-z_][][A-Za-z0-9_.>-]*"
	left = substr(code, 1, at - 2)
	rest = substr(code, at + size + 1)
	if (!match(left, value "$"))
		return 0
	left = substr(left, RSTART)
	if (!match(rest, "^" value " [?] "))
		return 0
	right = substr(rest, 1, RLENGTH - 3)
	rest = substr(rest, RLENGTH + 1) ";"
	return index(rest, left " : " right) == 1 &&
		substr(rest, length(left right) + 4, 1) ~ /[;,) ]/ ||
		index(rest, right " : " left) == 1 &&
		substr(rest, length(left right) + 4, 1) ~ /[;,) ]/
}

# Every place of a word, or of an operator between blanks.
function each(word, other, is_word, rest, at, offset, left, right) {
	rest = code
	offset = 0
	while ((at = index(rest, word)) > 0) {
		left = offset + at > 1 ? substr(code, offset + at - 1, 1) : " "
		right = substr(code, offset + at + length(word), 1)
		if (is_word ? left !~ /[A-Za-z0-9_.]/ && right !~ /[A-Za-z0-9_.]/ \
			    : left == " " && (right == " " || right == "") &&
			      !(word ~ /^[<>]=?$/ && chooses(offset + at, length(word))))
			emit(offset + at, length(word), other, word " -> " other)
		offset += at + length(word) - 1
		rest = substr(code, offset + 1)
	}
}

function numbers(rest, offset, word, left) {
	rest = code
	offset = 0
	while (match(rest, /[0-9]+/)) {
		word = substr(rest, RSTART, RLENGTH)
		left = offset + RSTART > 1 ? substr(code, offset + RSTART - 1, 1) : " "
		if (left !~ /[A-Za-z0-9_.]/ && length(word) < 9 &&
		    substr(rest, RSTART + RLENGTH, 1) !~ /[A-Za-z0-9_.]/ &&
		    substr(code, 1, offset + RSTART - 1) !~ /calloc\($/ && code !~ /\? -1 : 1;/)
			emit(offset + RSTART, RLENGTH, word + 1, word " -> " (word + 1))
		offset += RSTART + RLENGTH - 1
		rest = substr(code, offset + 1)
	}
}

{
	code = mask($0)
	trimmed = $0
	gsub(/^[ \t]+|[ \t]+$/, "", trimmed)
	gsub(/\t/, " ", trimmed)
	if (code ~ /^[ \t]*(#|static_assert|_Static_assert)/ || code ~ /\\$/)
		next
	inside = code ~ /^[ \t]/
	if (inside) {
		for (i = 1; i <= n_swaps; i++)
			if (blanks[i])
				each(from[i], to[i], 0)
			else if ((at = index(code, from[i])) > 0)
				emit(at, 2, to[i], from[i] " -> " to[i])
		each("true", "false", 1)
		each("false", "true", 1)
		numbers()
		if (ends && code ~ /^[ \t]+[A-Za-z_][A-Za-z0-9_>.-]*(\[[^]]*\])?( [-+*|&]?= |\().*;[ \t]*$/ &&
		    code !~ /^[ \t]+(return|if|for|while|switch|else|do|case|sizeof|goto)[^A-Za-z0-9_]/) {
			match(code, /[^ \t]/)
			emit(RSTART, length(code) - RSTART + 1, ";", "dropped")
		}
	}
	if (code !~ /^[ \t]*$/)
		ends = code ~ /([;{}:)]|else)[ \t]*$/
}
