# Sourced by scripts whose folder is that of the project; never run by itself.
set -eu
export LANG="${LANG:-C.UTF-8}" # gnuplot warns of its own signs in other encodings

step() { printf '\n== %s\n' "$*"; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install LIST... - installs what these lists of packages name and is missing.
install() {
	missing=
	for package in $(cat "$@" | grep -v '^#'); do
		dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' ||
			missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null; then
		echo "$0: no apt-get here; please install what these are elsewhere:$missing" >&2
		exit 1
	fi
	step "installing$missing"
	as_root apt-get update -qq
	# shellcheck disable=SC2086 # a list
	as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# build NAME [OPTION...] - configures one preset and builds it, with options of
# cmake --build.
build() {
	name=$1
	shift
	step "build, preset $name"
	cmake --preset "$name" >/dev/null
	cmake --build --preset "$name" "$@"
}

# run_tests LOG OPTION... - runs ctest with these options; what failed is printed once
# more at the end, for whoever sees only that.
run_tests() {
	log=$1
	shift
	ctest "$@" --output-on-failure --no-tests=error --output-log "$log" && return
	step "What the tests printed that failed"
	awk '/^ *[0-9]+\/[0-9]+ Test +#/ { failed = /\*\*\*/ && !/\*\*\*Skipped/ }
		/^ *Start +[0-9]+:|tests passed,/ { failed = 0 }
		failed' "$log" | head -n 300
	return 1
}
