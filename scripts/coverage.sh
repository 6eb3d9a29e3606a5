#!/usr/bin/env bash
# coverage.sh: how much of lib/ the programs of a build with CONFIG=coverage have run. `make test` ends with it.
#
#   coverage.sh              a line for each folder of lib/: the lines and the branches that were run
#   coverage.sh files        the same for each file, the least covered first
#   coverage.sh missed FILE  the lines of that file that were never run, with their numbers
#   coverage.sh forget       forgets what was run before
#
# OUT=build/coverage   the build       GCOV=gcov   the reader that suits the compiler
# What is run adds up until it is forgotten: `make test` begins anew, `make test-fault` and single programs add. A
# process that is killed, or ends by _exit, leaves nothing. A branch here is each way out of a condition, as gcov
# counts them; those that only a failed allocation takes are among them.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${OUT:-build/coverage}
GCOV=${GCOV:-gcov}

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }
fail() {
    echo "coverage: $*" >&2
    exit 1
}

# The notes of the compiler on what there is in lib/; a file that was never run has only these.
notes() {
    local source note
    for source in lib/*/*.c; do
        note=$OUT/${source%.c}.gcno
        [ -f "$note" ] || fail "$note is missing: run make test CONFIG=coverage first"
        echo "$note"
    done
}

# A line for each source file: FILE LINES LINES_RUN BRANCHES BRANCHES_RUN
counts() {
    local list
    list=$(notes) || exit 1
    mapfile -t list <<<"$list"
    # A share such as "93.33% of 30" has enough digits to give back the count. After the last file stands one more
    # line for all together, which is not wanted here.
    "$GCOV" --no-output --branch-probabilities "${list[@]}" 2>"$ERRORS" | awk '
        function put() {
            if (file ~ /^lib\/.*\.[ch]$/ && lines != "") print file, lines, branches == "" ? "0 0" : branches
        }
        function count(text, words) {
            split(text, words, /[:%]/)
            sub(/ of /, "", words[3])
            return words[3] " " int(words[2] * words[3] / 100 + 0.5)
        }
        /^File / { put(); file = substr($0, 7, length($0) - 7); lines = branches = "" }
        /^Lines executed:/ && lines == "" { lines = count($0) }
        /^Taken at least once:/ { branches = count($0) }
        END { put() }'
    # A test that was rebuilt since: what it left is for other code.
    if grep -v 'cannot open data file, assuming not executed$' "$ERRORS" >&2; then
        fail "gcov could not read all of it"
    fi
}

# Adds those of counts() with the same name, and prints a row for each, in the order of their coming.
rows() {
    awk '
        !($1 in lines) { names[++n] = $1 }
        { lines[$1] += $2; lines_run[$1] += $3; branches[$1] += $4; branches_run[$1] += $5 }
        function share(run, all) { return sprintf("%6d of %6d %6.1f %%", run, all, all ? 100 * run / all : 100) }
        END {
            for (i = 1; i <= n; i++) {
                name = names[i]
                printf "%-34s lines %s   branches %s\n", name, share(lines_run[name], lines[name]),
                    share(branches_run[name], branches[name])
            }
        }'
}

# report NAMER: a row for each name that the function NAMER gives to the files, and one for all together.
report() {
    local all
    all=$(counts) || exit 1
    echo "coverage of lib/ by what was run:"
    "$1" <<<"$all" | rows | sort "${@:2}"
    awk '{ $1 = "all"; print }' <<<"$all" | rows
}

folders() { awk '{ sub(/\/[^\/]*$/, "", $1); print }'; }
files() { cat; }

# The lines that gcov marks: never run, or run only by an exception.
missed() {
    local file=$1 note
    note=$OUT/${file%.c}.gcno
    [ -f "$note" ] || fail "$note is missing: is $file a .c file of lib/, built with CONFIG=coverage?"
    "$GCOV" --stdout "$note" 2>"$ERRORS" | awk -F: -v file="$file" '
        $3 == "Source" { ours = ($4 == file) }
        ours && $1 ~ /^ *(#####|=====)\*?$/ {
            number = $2
            sub(/^[^:]*:[^:]*:/, "")
            printf "%s:%d:%s\n", file, number, $0
        }'
}

main() {
    case ${1:-} in -h | --help) usage; exit 0 ;; esac
    cd "$ROOT"
    command -v "$GCOV" >/dev/null || fail "$GCOV was not found; it comes with gcc"
    ERRORS=$(mktemp "${TMPDIR:-/tmp}/etcdlock-coverage-XXXXXX")
    trap 'rm -f "$ERRORS"' EXIT
    case ${1:-}:$# in
        :0) report folders ;;
        files:1) report files --key=6,6n ;;
        missed:2) missed "${2#./}" ;;
        forget:1) if [ -d "$OUT" ]; then find "$OUT" -name '*.gcda' -delete; fi ;;
        *) usage >&2; exit 1 ;;
    esac
}

main "$@"
