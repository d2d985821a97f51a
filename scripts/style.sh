#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Checks the formatting and the rules of the project that a program can check.
# Prints KTAP; a tool that is not installed makes its check a skipped one.
set -u

cd "$(dirname -- "$0")/.." || exit 1

# Longer files are worth splitting.
LINES=600
# These have no room for a licence, or are verbatim copies of the kernel's.
NO_SPDX='COPYING|README\.md|debian/(control|changelog|copyright|source/format|.*\.docs)|Documentation/ABI/.*|LICENSES/.*|\.rustfmt\.toml|\.clang-format|.*/Cargo\.lock'

count=0
failed=0

# result NAME OUTPUT: a check has failed if it printed something.
result() {
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count style: $1"
		return
	fi
	echo "not ok $count style: $1"
	head -n 40 <<<"${2%$'\n'}" | sed "s|$PWD/||; s/^/# /"
	failed=$((failed + 1))
}

skip() {
	count=$((count + 1))
	echo "ok $count style: $1 # SKIP $2 is not installed"
}

have() {
	command -v "$1" >/dev/null 2>&1
}

# The sources: everything but what is built, fetched or hidden by Git.
mapfile -t files < <(find . \
	\( -name .git -o -name target -o -name __pycache__ -o -path ./rustdoc \
	-o -path ./selftests/fuzz/corpus \) -prune -o \
	-type f ! -name '*_generated.rs' ! -name shared_types ! -name '*.o' ! -name '*.ko' \
	! -name '*.mod' ! -name '*.mod.c' ! -name '.*.cmd' ! -name '*.rmeta' ! -name '.*.d' \
	! -name '*.o.d' ! -name Module.symvers ! -name modules.order ! -name .module-common.o \
	-printf '%P\n' | LC_ALL=C sort)

# first_line PATTERN: those of the files whose first line is like that.
first_line() {
	local file line
	for file in "${files[@]}"; do
		IFS= read -r line <"$file" || :
		# shellcheck disable=SC2053 # a pattern
		[[ $line == $1 ]] && echo "$file"
	done 2>/dev/null
}

matching() {
	printf '%s\n' "${files[@]}" | grep -E "$1"
}

mapfile -t rust < <(matching '\.rs$')
mapfile -t shell < <({
	matching '\.sh$'
	first_line '#!*sh'
	first_line '#!*sh -*'
} | sort -u)
mapfile -t python < <({
	matching '\.py$'
	first_line '#!*python3'
} | sort -u)

echo "KTAP version 1"

if have rustfmt; then
	result "rustfmt" "$(rustfmt --edition 2021 --check -l "${rust[@]}" 2>&1 | sort -u)"
else
	skip "rustfmt" rustfmt
fi

if have shellcheck; then
	result "shellcheck" "$(shellcheck -f gcc "${shell[@]}" 2>&1)"
else
	skip "shellcheck" shellcheck
fi

if have pyflakes3; then
	result "pyflakes" "$(pyflakes3 "${python[@]}" 2>&1)"
elif have python3; then
	result "python compiles" "$(python3 -c '
import sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        compile(file.read(), name, "exec")' "${python[@]}" 2>&1)"
else
	skip "python compiles" python3
fi

drivers=()
for driver in blkfront blkback netfront netback; do
	[ ! -d $driver ] || drivers+=("$driver")
done
result "drivers have no unsafe code and no bindings" "$(grep -rnwE --include='*.rs' \
	'^([^/]|/[^/])*(unsafe|bindings)' "${drivers[@]}")"

lines=
for file in "${files[@]}"; do
	[[ $file =~ ^($NO_SPDX)$ ]] || head -n 2 "$file" | grep -q 'SPDX-License-Identifier: GPL-2.0' ||
		lines+=$file$'\n'
done
result "licence in the first lines" "$lines"

result "no space at the end of a line" "$(grep -nIE '[ 	]+$' "${files[@]}" /dev/null |
	grep -v '^COPYING:')"

lines=
for file in "${files[@]}"; do
	[ -z "$(tail -c 1 "$file" | tr -d '\n')" ] || lines+=$file$'\n'
done
result "newline at the end of a file" "$lines"

# What is promised is shown by tests that exist.
lines=
while read -r name; do
	[ -x "selftests/$name.sh" ] || lines+="$name"$'\n'
done < <(grep -rhoE '\b(blk|net)/test_[a-z]+_[0-9]+' Documentation README.md | sort -u)
result "tests that are named exist" "$lines"

for file in "${rust[@]}" "${shell[@]}" "${python[@]}"; do
	length=$(wc -l <"$file")
	[ "$length" -le $LINES ] || echo "# note: $file has $length lines, more than $LINES"
done

echo "1..$count"
[ $failed = 0 ]
