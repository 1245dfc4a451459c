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
# more at the end, for whoever sees only that.  Up to three tests that fail run again,
# alone, and may then pass: a machine that stands still for seconds ends waits that a
# test holds to a time.  Storms may not: what they look for comes once in many jobs.
run_tests() {
	log=$1
	shift
	ctest "$@" --output-on-failure --no-tests=error --output-log "$log" && return
	step "What the tests printed that failed"
	awk '/^ *[0-9]+\/[0-9]+ Test +#/ { failed = /\*\*\*/ && !/\*\*\*Skipped/ }
		/^ *Start +[0-9]+:|tests passed,/ { failed = 0 }
		failed' "$log" | head -n 300
	failed=$(awk '/^The following tests FAILED:/ { lists = 1; next }
		lists && $2 == "-" { n++; names = names " " $3 }
		END { if (n <= 3) print names }' "$log")
	case "$failed" in '' | *Storm*) return 1 ;; esac
	step "once more, alone:$failed"
	ctest "$@" --rerun-failed -j 1 --output-on-failure --output-log "$log.again" || return 1
	echo "These failed beside others, and passed alone:$failed" | tee -a "$log"
}
