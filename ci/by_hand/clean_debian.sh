# Sourced by scripts that try packages in a clean Debian in a folder of its own,
# $root, which goes when they end.
root=$(mktemp -d)
log=$(mktemp)
trap 'as_root rm -rf "$root"; rm -f "$log"' EXIT

# attempt COMMAND... - prints what the command printed if it fails.
attempt() {
	"$@" >"$log" 2>&1 && return
	echo "$0: fails: $*"
	cat "$log"
	exit 1
}

# inside COMMAND... - runs a command there; its mounts end with it.
inside() {
	# shellcheck disable=SC2016 # of the inner shell
	as_root unshare --mount sh -c '
		mount --rbind /proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" &&
		cd "$1" && exec chroot "$@"' sh "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -c 'cd /tmp && "$@"' sh "$@"
}

# clean_debian [RELEASE] - fills $root with a small Debian, this machine's release if
# none is named, from where this machine's apt has its packages.
clean_debian() {
	here=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	release=${1:-$here}
	step "a clean Debian, $release"
	if [ "$release" = "$here" ]; then
		format='deb $(REPO_URI) $(RELEASE) $(COMPONENT)'
	else
		format="deb \$(REPO_URI) $release \$(COMPONENT)"
	fi
	apt-get indextargets --format "$format" 'Created-By: Packages' 'Origin: Debian' \
		'Label: Debian' | sort -u >"$log.list"
	as_root mmdebstrap --quiet --variant=minbase "$release" "$root" "$log.list"
	rm "$log.list"
	# what apt needs to reach its packages from there as from here
	as_root cp /etc/resolv.conf /etc/hosts "$root/etc"
	apt-config dump | grep '^Acquire::' | as_root tee "$root/etc/apt/apt.conf.d/90here" >/dev/null
}
