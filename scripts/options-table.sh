#!/usr/bin/env bash
# Keeps the table of options in README.md, between <!-- options --> and <!-- /options -->, as lib/core/options.c
# has it. Without arguments it replaces the table, with --check it only says whether they differ.
#   OUT=folder with libetcdlock.a (default build/release), README=file (default README.md), CC=compiler
set -euo pipefail
cd "$(dirname "$0")/.."

out=${OUT:-build/release}
readme=${README:-README.md}
fail() {
    echo "options-table.sh: $*" >&2
    exit 1
}

mode=replace
case "${1:-}" in
"") ;;
--check) mode=check ;;
*) fail "usage: scripts/options-table.sh [--check]" ;;
esac
[ -f "$out/libetcdlock.a" ] || fail "$out/libetcdlock.a is missing: run make first"
[ -f "$readme" ] || fail "$readme is missing"

# Both marks once, in this order: else a cut would take more than the table.
marks=$(grep -xE '<!-- /?options -->' "$readme" || true)
[ "$marks" = $'<!-- options -->\n<!-- /options -->' ] ||
    fail "$readme needs the lines <!-- options --> and <!-- /options --> once each, in this order"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -Iinclude -Ilib -pthread -o "$work/table" scripts/options_table.c \
    "$out/libetcdlock.a" -lcjson
"$work/table" >"$work/table.md"
awk -v table="$work/table.md" '
    $0 == "<!-- /options -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- options -->" {
        inside = 1
        print ""
        while ((getline line < table) > 0) print line
        print ""
    }' "$readme" >"$work/README.md"

if cmp -s "$readme" "$work/README.md"; then
    exit 0
elif [ "$mode" = check ]; then
    diff -u "$readme" "$work/README.md" >&2 || true
    fail "the table of options in $readme is out of date: run scripts/options-table.sh"
fi
# Written in place, so that the file keeps its owner and mode.
cat "$work/README.md" >"$readme"
echo "the table of options in $readme was replaced"
