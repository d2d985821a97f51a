#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# What rustdoc runs instead of rustc for an example, which comes on standard input: type-checks it, as code for the
# kernel, which has neither a standard library nor `main`.
set -eu

count=$#
while [ "$count" -gt 0 ]; do
	count=$((count - 1))
	word=$1
	shift
	case $word in
	-o | --crate-type | --emit | --error-format | --json)
		shift
		count=$((count - 1))
		;;
	--crate-type=* | --emit=* | --error-format=* | --json=* | -) ;;
	*) set -- "$@" "$word" ;;
	esac
done
{
	echo '#![no_std]'
	cat
} | rustc "$@" --crate-type lib --emit metadata -o /dev/null -
