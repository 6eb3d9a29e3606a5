#!/usr/bin/env bash
# lint.sh: everything that keeps the code base well and can be checked without running it. `make lint` calls it.
#
#   lint.sh [STEP...]     all steps, or those named: format tidy cppcheck analyzer sizes headers scripts names marks readme
#
# CPPFLAGS_FOR_LINT=FLAGS   the include paths and macros the Makefile compiles with (default: -Iinclude -Ilib ...)
# OUT=build/release         where the build went; the generated headers are in build/gen
# All steps run, even after one has failed; exit status 1 if any did.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
read -ra CPPFLAGS <<<"${CPPFLAGS_FOR_LINT:--Iinclude -Ilib -Ibuild/gen -D_GNU_SOURCE}"
MOST_LINES_FILE=500
MOST_LINES_FUNCTION=70
JOBS=2
FAILED_STEPS=()

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }

# Prints the project's files that match the patterns: what git knows or would add, and that exists.
files() {
    local file
    if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
        git ls-files -co --exclude-standard -- "$@"
    else
        local pattern names=()
        for pattern in "$@"; do names+=(-o -path "./$pattern"); done
        find . -path ./build -prune -o -type f \( "${names[@]:1}" \) -print | sed 's|^\./||'
    fi | sort -u | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
}

# each COMMAND...: runs it once per file name on standard input, a few at a time; prints the outputs of those that fail.
each() {
    local file out running=0 number=0 status=0
    while read -r file; do
        if ((running == JOBS)); then
            wait -n || status=1
            running=$((running - 1))
        fi
        number=$((number + 1)) running=$((running + 1)) out=$SCRATCH/each-$number
        ("$@" "$file" >"$out" 2>&1 || { cat "$out"; exit 1; }) &
    done
    for ((; running > 0; running--)); do wait -n || status=1; done
    return "$status"
}

# ---- steps: each prints what is wrong and fails if there is anything -----------------------------------------------

step_format() {
    files '*.c' '*.h' | each format_one
}

# One line per file: clang-format's own output is a page for each.
format_one() {
    clang-format --dry-run -Werror "$1" >/dev/null 2>&1 || { echo "$1: make format would change it"; return 1; }
}

step_tidy() {
    files 'lib/*.c' 'examples/*.c' | each tidy_one
}

# Without the count of warnings in system headers, which clang-tidy prints whether asked or not.
tidy_one() {
    clang-tidy --quiet "$1" -- -std=c11 "${CPPFLAGS[@]}" 2>&1 |
        { grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed |^Use -header-filter' || true; }
}

step_cppcheck() {
    local flags=() flag list=$SCRATCH/cppcheck-files
    for flag in "${CPPFLAGS[@]}"; do [[ $flag != -[IDU]* ]] || flags+=("$flag"); done
    files 'lib/*.c' 'examples/*.c' >"$list"
    [ -s "$list" ] || return 0
    cppcheck -q -j "$JOBS" --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
        --suppress=missingIncludeSystem --suppress=legacyUninitvar --suppress='*:build/*' --suppress='*:/usr/*' --error-exitcode=1 \
        "${flags[@]}" --file-list="$list"
}

step_analyzer() {
    files 'lib/*.c' | each analyze_one
}

analyze_one() {
    gcc -std=c11 "${CPPFLAGS[@]}" -O1 -fanalyzer -Werror -c -o /dev/null "$1"
}

long_files() {
    files 'lib/*' 'include/*' 'examples/*' 'test/*' 'scripts/*' | grep -E '\.(c|h|hpp|cpp|sh|proto)$' |
        while read -r file; do
            echo "$(wc -l <"$file") $file"
        done | awk -v most="$MOST_LINES_FILE" '$1 > most { print $2 ": " $1 " lines, more than " most; bad = 1 } END { exit bad }'
}

# A C function of ours opens and closes with a brace alone in the first column; a shell function opens with "name() {".
long_functions() {
    local names
    mapfile -t names < <(files 'lib/*.[ch]' 'include/*.[ch]' 'examples/*.[ch]' 'test/*.[ch]' 'scripts/*.sh' 'test/*.sh')
    awk -v most="$MOST_LINES_FUNCTION" '
        FNR == 1 { opened = 0; name = "" }
        !opened && /^[A-Za-z_].*\(/ { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        !opened && (/^\{$/ || /^[A-Za-z_-]+\(\) [{(]$/) { opened = FNR; next }
        opened && /^[})]/ {
            size = FNR - opened + 1
            if (size > most) { print FILENAME ":" opened ": " name " has " size " lines, more than " most; bad = 1 }
            opened = 0
        }
        END { exit bad }' "${names[@]}"
}

step_sizes() {
    local status=0
    long_files || status=1
    long_functions || status=1
    return "$status"
}

# Public headers are compiled as a user's program would: their own folder only, and nothing of GNU.
step_headers() {
    local status=0
    files 'include/*.h' | each header_one -Iinclude -D_POSIX_C_SOURCE=200809L -Wpedantic || status=1
    files 'lib/*.h' | each header_one "${CPPFLAGS[@]}" || status=1
    return "$status"
}

header_one() {
    printf '#include "%s"\nextern int not_empty;\n' "$ROOT/${*: -1}" | gcc -std=c11 -Wall -Wextra -Werror "${@:1:$#-1}" -fsyntax-only -x c -
}

step_scripts() {
    files '*.sh' '.ci/*' | xargs -r shellcheck -x
}

step_names() {
    ! files '*' | grep -E '(^|/)(utils?|commons?|misc|helpers?)(\.[^/]*|/.*)?$' | sed 's/$/: a name that says nothing/'
}

step_readme() {
    OUT=${OUT:-build/release} scripts/options-table.sh --check
}

step_marks() {
    ! files '*.c' '*.h' '*.hpp' '*.sh' '*.proto' '*.map' Makefile '.ci/*' | xargs -r grep -nwE 'TO[D]O|FIX[M]E|XX[X]|HAC[K]'
}

# ---- running them ---------------------------------------------------------------------------------------------------

run_step() {
    local step=$1 status=0 began=${EPOCHREALTIME/./} taken
    printf '  %-10s' "$step"
    # In a shell of its own, so that errors inside end it: in a condition set -e would sleep.
    bash "${BASH_SOURCE[0]}" --only "$step" >"$SCRATCH/$step" 2>&1 || status=$?
    taken=$(((${EPOCHREALTIME/./} - began) / 100000))
    printf '%4d.%d s  ' $((taken / 10)) $((taken % 10))
    if [ "$status" = 0 ]; then echo ok; return; fi
    echo FAILED
    sed 's/^/    | /' "$SCRATCH/$step"
    FAILED_STEPS+=("$step")
}

main() {
    local step steps=(format tidy cppcheck analyzer sizes headers scripts names marks readme)
    case ${1:-} in -h | --help) usage; exit 0 ;; esac
    cd "$ROOT"
    SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/etcdlock-lint-XXXXXX")
    trap 'rm -rf "$SCRATCH"' EXIT
    if [ "${1:-}" = --only ]; then "step_$2"; exit; fi
    [ $# = 0 ] || steps=("$@")
    for step in "${steps[@]}"; do
        declare -F "step_$step" >/dev/null || { echo "lint: no step $step; --help lists them" >&2; exit 1; }
        run_step "$step"
    done
    [ ${#FAILED_STEPS[@]} = 0 ] || { echo "lint: failed: ${FAILED_STEPS[*]}"; exit 1; }
    echo "lint: all ${#steps[@]} steps passed"
}

main "$@"
