#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Installs the few host programs that the test bed needs on a minimal Debian
# system, then hands over to xenvm with the same arguments, unless the only one is
# --only-programs.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

missing=
command -v python3 >/dev/null 2>&1 || missing="$missing python3"
command -v mmdebstrap >/dev/null 2>&1 || missing="$missing mmdebstrap"
command -v mount >/dev/null 2>&1 || missing="$missing mount"
command -v unshare >/dev/null 2>&1 || missing="$missing util-linux"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] ||
	missing="$missing debian-archive-keyring"

if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ]; then
		echo "xenvm: not root, so these packages cannot be installed:$missing" >&2
		exit 1
	fi
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "xenvm: no apt-get here, so these packages cannot be installed:$missing" >&2
		exit 1
	fi
	echo "xenvm: installing$missing" >&2
	log=$(mktemp)
	# shellcheck disable=SC2086 # one word a package
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
		tail -n 5 "$log" >&2
		rm -f "$log"
		echo "xenvm: apt-get could not install$missing" >&2
		exit 1
	fi
	rm -f "$log"
fi

[ "${1:-}" != --only-programs ] || exit 0
exec python3 "$here/xenvm" "$@"
