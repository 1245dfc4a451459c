#!/bin/sh
# waits.sh TOP - fails if a file that a job loads has a call that waits and no row in
# SECURITY.md's table of waits, or a row there has no such call, or names a test that
# is not there.
set -eu
cd "$1"
calls='poll|ppoll|p?select|epoll_wait|nanosleep|usleep|sleep|sched_yield|connect|accept4?|getaddrinfo|flock|lockf|pthread_(mutex_lock|join|once|cond_wait|cond_timedwait|rwlock_[rw][a-z]*lock)|sem_[a-z]*wait|sig[a-z]*wait[a-z]*|wait(pid|id)|futex|dlopen|(cu|cuda)[A-Za-z]*Synchronize'
found=$(mktemp)
told=$(mktemp)
trap 'rm -f "$found" "$told"' EXIT
# "plugin/file.c flock", of code and not of comments
for file in $(find src/plugin src/agree src/store src/stage src/core -name '*.[ch]'); do
	grep -vE '^ *(/?\*|//)' "$file" | grep -oE "(^|[^a-zA-Z_>.])($calls)\(" |
		sed -E "s|^[^a-z]?(.*)\($|${file#src/} \1|" || true
done | sort -u >"$found"
# Rows: | `plugin/file.c`: `flock()`, `nanosleep()` | ... | `Suite.Test` |
awk -F'|' '/^\| `(plugin|agree|store|stage|core)\// {
	n = split($2, part, "`")
	n_files = 0
	for (i = 2; i <= n; i += 2)
		if (part[i] ~ /\//) files[++n_files] = part[i]
		else for (f = 1; f <= n_files; f++) print files[f], substr(part[i], 1, length(part[i]) - 2)
}' SECURITY.md | sort -u >"$told"
bad=0
diff "$found" "$told" >&2 || { echo "SECURITY.md's table of waits differs (< code, > table)"; bad=1; }
for test in $(sed -nE '/^\| `(plugin|agree|store|stage|core)\//s/.*\|([^|]*)\|$/\1/p' SECURITY.md | tr -d '`,'); do
	grep -rqE "^TEST(_[FP])?\\(${test%%.*}, ${test#*.}\\)" tests || { echo "no test $test"; bad=1; }
done
exit $bad
