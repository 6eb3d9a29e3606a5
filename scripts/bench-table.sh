#!/usr/bin/env bash
# bench-table.sh: puts the results of the last `make bench` into README.md, between <!-- bench --> and <!-- /bench -->.
#
#   bench-table.sh [--print]      --print: only shows them
#
# BUILD=build/release where the programs are   README=FILE (default README.md)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUILD=${BUILD:-build/release}
README=${README:-README.md}

fail() {
    echo "bench-table.sh: $*" >&2
    exit 1
}

case ${1:-} in
    '' | --print) ;;
    *) fail "usage: scripts/bench-table.sh [--print]" ;;
esac
if [ ! -s build/bench.json ] || [ ! -s build/bench.run ]; then
    fail "build/bench.json is missing: run make bench first"
fi
[ -x "$BUILD/test/bench/bench" ] || fail "$BUILD/test/bench/bench is not built: make bench"

# Both marks once, in this order: else a cut would take more than the table.
marks=$(grep -xE '<!-- /?bench -->' "$README" || true)
[ "$marks" = $'<!-- bench -->\n<!-- /bench -->' ] ||
    fail "$README needs the lines <!-- bench --> and <!-- /bench --> once each, in this order"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    echo
    cat build/bench.run
    echo
    "$BUILD/test/bench/bench" markdown build/bench.json
    echo
} >"$work/table.md"
if [ "${1:-}" = --print ]; then
    cat "$work/table.md"
    exit 0
fi
awk -v table="$work/table.md" '
    $0 == "<!-- /bench -->" { inside = 0 }
    !inside { print }
    $0 == "<!-- bench -->" {
        inside = 1
        while ((getline line < table) > 0) print line
    }' "$README" >"$work/README.md"
# Written in place, so that the file keeps its owner and mode.
cat "$work/README.md" >"$README"
echo "the figures in $README were replaced"
