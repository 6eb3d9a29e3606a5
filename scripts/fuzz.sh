#!/usr/bin/env bash
# fuzz.sh: runs the built fuzz targets, each first on its seeds and its earlier findings, then on new inputs.
#
#   fuzz.sh SECONDS [TARGET...]     so long each; all targets, or those named (answer, place, config, ...)
#
# OUT=build/fuzz     the build, as the Makefile made it with CONFIG=fuzz; build/fuzz-seeds is one without libFuzzer,
#                    which runs the seeds and no more
# Inputs that reach new code stay in $OUT/corpus/TARGET. An input that breaks something is kept in $OUT/findings; to
# see it again, give it to the program alone: build/fuzz/test/fuzz/TARGET_fuzz FILE. Exit status 1 if there was any.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
OUT=${OUT:-build/fuzz}
SEEDS=test/fuzz/seeds
LARGEST_INPUT=4096 # bytes; a config file or a message of a real queue is far smaller
SLOWEST_INPUT_S=10
SEEDS_ONLY=0
[[ $OUT != *-seeds ]] || SEEDS_ONLY=1
FAILED=()

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }

# libFuzzer runs the files that it is given, as the plain driver does.
run_seeds() {
    local program=$1 target=$2 findings=("$OUT/findings/$2-"*)
    [ -e "${findings[0]}" ] || findings=()
    "$program" "$SEEDS/$target"/* ${findings[@]+"${findings[@]}"} </dev/null
}

run_fuzzer() {
    local program=$1 target=$2 seconds=$3
    mkdir -p "$OUT/corpus/$target" "$OUT/findings"
    run_seeds "$program" "$target" || return 1
    # From a terminal or a pipe an input could make the program wait: a config file may name any file.
    "$program" -max_total_time="$seconds" -max_len="$LARGEST_INPUT" -timeout="$SLOWEST_INPUT_S" -print_final_stats=1 \
        -artifact_prefix="$OUT/findings/$target-" "$OUT/corpus/$target" "$SEEDS/$target" </dev/null
}

run_target() {
    local target=$1 seconds=$2 program=$OUT/test/fuzz/$1_fuzz log=$OUT/$1.log status=0 taken began=$SECONDS
    [ -x "$program" ] || { echo "fuzz: no target $target; there are: $(targets)" >&2; exit 1; }
    if [ "$SEEDS_ONLY" = 1 ]; then
        run_seeds "$program" "$target" >"$log" 2>&1 || status=$?
    else
        run_fuzzer "$program" "$target" "$seconds" >"$log" 2>&1 || status=$?
    fi
    taken=$((SECONDS - began))
    printf '%-14s %5d s %12s inputs %6s kept  %s\n' "$target" "$taken" "$(inputs "$log")" \
        "$(find "$OUT/corpus/$target" -type f 2>/dev/null | wc -l)" "$([ "$status" = 0 ] && echo ok || echo FAILED)"
    [ "$status" = 0 ] || { FAILED+=("$target"); grep -v '^#[0-9]' "$log" | tail -n 60 | sed 's/^/    | /'; }
}

# How many inputs a log is about.
inputs() {
    local executed
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p; s/^\([0-9]*\) inputs$/\1/p' "$1" | tail -n 1)
    echo "${executed:--}"
}

targets() {
    local source
    for source in test/fuzz/*_fuzz.c; do
        source=${source##*/}
        echo -n "${source%_fuzz.c} "
    done
}

main() {
    local seconds=${1:-} target names=()
    case $seconds in
        -h | --help) usage; exit 0 ;;
        '' | *[!0-9]*) usage >&2; exit 1 ;;
    esac
    shift
    cd "$ROOT"
    if [ $# = 0 ]; then read -ra names <<<"$(targets)"; else names=("$@"); fi
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
    [ "$SEEDS_ONLY" = 0 ] || echo "fuzz: no clang with libFuzzer was found: the seeds only"
    for target in "${names[@]}"; do run_target "$target" "$seconds"; done
    [ ${#FAILED[@]} = 0 ] || { echo "fuzz: failed: ${FAILED[*]}; what broke it is in $OUT/findings"; exit 1; }
    echo "fuzz: all ${#names[@]} targets passed"
}

main "$@"
