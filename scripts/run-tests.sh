#!/usr/bin/env bash
# run-tests.sh: runs the built test programs of one or more kinds and adds up what they say.
#
#   run-tests.sh KIND...      unit, sim, live, fault, proof: each program in $OUT/test/KIND; install: test/install/*.sh
#
# A line in the first lines of a live, fault or proof test says which etcd it wants; none means one member:
#   /* cluster: 3 */   /* cluster: 3 netns */ (members that can be isolated)   /* cluster: none */
#   /* cluster: 3 tls */   /* cluster: 1 auth ttl=5 */ (tokens live 5 s)   /* cluster: 1 -- --etcd-flag value */
#   /* cluster: 1 postgres */ (a PostgreSQL server too)   /* cluster: 1 | 3 */ (one run with each)
# The test finds it in ETCDLOCK_TEST_ENDPOINTS, and kills or pauses members with $ETCDLOCK_TEST_CLUSTER kill M.
#
# OUT=build/release  CONFIG=release   the build to test (the Makefile sets both)
# NAME=PATTERN       only the programs whose name matches the shell pattern
# WRAP=COMMAND       runs each program under it: WRAP='gdb --args'
# LIMIT_S=300        the time one program may take (more by itself under sanitizers and valgrind)
# JOBS=1             so many programs at a time, each with a cluster of its own
# The last line is "N passed, N failed"; exit status 1 if any failed. A program that crashes or takes too long counts
# as one failed check. What failed is told once more before that line, so that the end of a long output is enough.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CLUSTER=$ROOT/scripts/cluster.sh
OUT=${OUT:-build/release}
CONFIG=${CONFIG:-release}
NAME=${NAME:-*}
JOBS=${JOBS:-1}
PASSED=0 FAILED=0 SKIPPED=0 STOPPED=0 TERMINAL=0
declare -A RUNNING=() BEGAN=() # by process id: the name, and when it began
[ ! -t 1 ] || TERMINAL=1

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# Appends options to a sanitizer's variable $1; what the caller has set comes last and wins.
add_options() {
    local variable=$1
    shift
    export "$variable=$(IFS=:; echo "$*")${!variable:+:${!variable}}"
}

suppressions() { [ ! -e "test/support/$1.supp" ] || echo "suppressions=$ROOT/test/support/$1.supp"; }

set_up_config() {
    local slower=1
    case $CONFIG in
        asan)
            slower=3
            add_options ASAN_OPTIONS detect_leaks=1 detect_stack_use_after_return=1 strict_string_checks=1
            add_options LSAN_OPTIONS print_suppressions=0 "$(suppressions lsan)"
            ;;
        ubsan) add_options UBSAN_OPTIONS print_stacktrace=1 halt_on_error=1 ;;
        tsan)
            slower=8
            export SEEDS=${SEEDS:-300} # of the simulator; unhurried builds run 2,000
            add_options TSAN_OPTIONS die_after_fork=0 second_deadlock_stack=1 exitcode=66 "$(suppressions tsan)"
            # GCC's TSan cannot start where the kernel spreads addresses too widely.
            if setarch -R true 2>/dev/null; then WRAPPER=(setarch -R); fi
            ;;
        valgrind)
            slower=20
            export SEEDS=${SEEDS:-50}
            WRAPPER=(valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite
                --errors-for-leak-kinds=definite --num-callers=30 --fair-sched=try)
            [ ! -e test/support/valgrind.supp ] || WRAPPER+=("--suppressions=$ROOT/test/support/valgrind.supp")
            ;;
    esac
    if [ -n "${WRAP:-}" ]; then read -ra WRAPPER <<<"$WRAP"; fi
    LIMIT_S=${LIMIT_S:-$((300 * slower))}
    export CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-$slower}
}

# Prints what the test's source asks for, a line for each run.
cluster_wishes() {
    local kind=$1 name=$2 wish sizes
    case $kind in live | fault | proof) ;; *) echo none; return ;; esac
    wish=$(sed -n '1,20s|^/\* cluster: \(.*[^ ]\) *\*/.*|\1|p' "test/$kind/$name.c" 2>/dev/null | head -n 1)
    wish=${wish:-1}
    if [[ $wish == '1 | 3'* ]]; then
        for sizes in 1 3; do echo "$sizes${wish#1 | 3}"; done
    else
        echo "$wish"
    fi
}

# Turns a wish into "none", or options of cluster.sh run.
cluster_options() {
    local wish=$1 words=() options word
    read -ra words <<<"${wish%% -- *}"
    case ${words[0]} in
        none) echo none; return ;;
        1 | 3) options="-n ${words[0]} --tmpfs" ;;
        *) echo "unknown wish: $wish"; return ;;
    esac
    for word in "${words[@]:1}"; do
        case $word in
            netns | tls | auth) options+=" --$word" ;;
            postgres) ;; # see run_kind
            ttl=*) options+=" --auth-token-ttl ${word#*=}" ;;
            *) echo "unknown wish: $wish"; return ;;
        esac
    done
    [[ $wish != *' -- '* ]] || for word in ${wish#* -- }; do options+=" --etcd-flag=$word"; done
    echo "$options"
}

# A signal to us ends what is running too, and is not put off until that is done.
stop() {
    STOPPED=$1
    ((${#RUNNING[@]} == 0)) || kill -TERM "${!RUNNING[@]}" 2>/dev/null || true
}

# Adds the counts of Check's summary lines in the log $1: sets CHECKS and BAD.
count_checks() {
    read -r CHECKS BAD < <(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$1" |
        awk '{ checks += $1; bad += $2 + $3 } END { print checks + 0, bad + 0 }')
}

# What the log $1 says of the failed checks; of a program without any, its end.
failed_lines() {
    { grep -E '^[^ ]+:[0-9]+:[FE]:' "$1" || tail -n 12 "$1"; } | head -n 12 | sed 's/^/    | /'
}

# report KIND/NAME STATUS MILLISECONDS LOG
report() {
    local name=$1 status=$2 taken=$3 log=$4 verdict=ok reason=''
    count_checks "$log"
    if [ "$status" != 0 ] && [ "$BAD" = 0 ]; then
        BAD=1 CHECKS=$((CHECKS + 1)) verdict=FAILED
        case $status in
            124 | 137) reason="no end within $LIMIT_S s, or killed" ;;
            *) ((status > 128)) && reason="died of signal $((status - 128))" || reason="exit status $status" ;;
        esac
    elif [ "$BAD" != 0 ]; then
        verdict=FAILED reason="$BAD failed"
    elif [ "$CHECKS" = 0 ]; then
        CHECKS=1 # a program or script without Check is one check
    fi
    PASSED=$((PASSED + CHECKS - BAD)) FAILED=$((FAILED + BAD))
    printf '%-40s %5d checks  %4d.%d s  %s%s\n' "$name" "$CHECKS" $((taken / 1000)) $((taken % 1000 / 100)) \
        "$verdict" "${reason:+: $reason}"
    if [ "$verdict" != ok ]; then
        sed 's/^/    | /' "$log"
        { echo "$name: $reason"; failed_lines "$log"; } >>"$FAILURES"
    fi
}

progress() {
    if [ "$TERMINAL" = 1 ] && ((${#RUNNING[@]} > 0)); then printf '%-78.78s\r' "${RUNNING[*]} ..."; fi
}

# Waits until one of those that run has ended, and reports it.
reap() {
    local child='' status=0 pid
    wait -n -p child "${!RUNNING[@]}" 2>/dev/null || status=$?
    # Of one that died of a signal bash tells by itself, and then does not find it here; its status it still knows.
    if [ "$status" = 127 ] && [ -z "${child:-}" ]; then
        for pid in "${!RUNNING[@]}"; do kill -0 "$pid" 2>/dev/null || child=$pid; done
        status=0
        [ -z "$child" ] || wait "$child" 2>/dev/null || status=$?
    fi
    [ -n "${child:-}" ] || return 0 # a signal came in between
    local name=${RUNNING[$child]} log=$LOGS/$child
    unset "RUNNING[$child]"
    [ "$STOPPED" != 0 ] || report "$name" "$status" $(($(now_ms) - BEGAN[$child])) "$log"
    rm -f "$log"
    progress
}

# Waits until fewer than $1 run; after a signal, until none does.
await() {
    local names=''
    while ((${#RUNNING[@]} >= (STOPPED ? 1 : $1))); do
        names="${RUNNING[*]}"
        reap
    done
    [ "$STOPPED" = 0 ] || { printf '\ninterrupted in %s\n' "$names" >&2; exit "$STOPPED"; }
}

# run_one KIND/NAME CLUSTER_OPTIONS COMMAND...
run_one() {
    local name=$1 cluster=$2 command=()
    shift 2
    case $cluster in
        none) ;;
        unknown*) echo "$name: $cluster" >&2; FAILED=$((FAILED + 1)); return ;;
        *) read -ra command <<<"$CLUSTER run $cluster --" ;;
    esac
    if [[ $cluster == *--netns* ]] && ! "$CLUSTER" can-netns; then
        printf '%-40s skipped: network namespaces cannot be made here\n' "$name"
        SKIPPED=$((SKIPPED + 1))
        return
    fi
    await "$JOBS"
    # timeout makes a process group of the test, so that what the test starts ends with it.
    (exec >"$LOGS/$BASHPID" 2>&1 </dev/null; exec ${command[@]+"${command[@]}"} timeout -k 10 "$LIMIT_S" "$@") &
    RUNNING[$!]=$name BEGAN[$!]=$(now_ms)
    [ "$STOPPED" = 0 ] || stop "$STOPPED" # the signal may have come before the child was known
    progress
}

run_kind() {
    local kind=$1 program name label wish database found=0
    for program in "$OUT/test/$kind"/*; do
        name=${program##*/}
        # shellcheck disable=SC2053 # NAME is a pattern
        if [ ! -f "$program" ] || [ ! -x "$program" ] || [[ $name != $NAME ]]; then continue; fi
        found=1
        label=$kind/$name
        while read -r wish; do
            [ "$kind" != proof ] || label="$kind/$name (${wish%% *})"
            database=()
            [[ " ${wish%% -- *} " != *' postgres '* ]] || database=(scripts/postgres.sh run --)
            run_one "$label" "$(cluster_options "$wish")" ${database[@]+"${database[@]}"} \
                ${WRAPPER[@]+"${WRAPPER[@]}"} "$program"
        done < <(cluster_wishes "$kind" "$name")
    done
    [ "$found" = 1 ] || echo "no tests of kind $kind"
}

run_install() {
    local script name found=0
    for script in test/install/*.sh; do
        name=${script##*/}
        # shellcheck disable=SC2053 # NAME is a pattern
        if [ ! -f "$script" ] || [[ ${name%.sh} != $NAME ]]; then continue; fi
        found=1
        run_one "install/${name%.sh}" none bash "$script"
    done
    [ "$found" = 1 ] || echo "no tests of kind install"
}

main() {
    local kind
    case ${1:-} in
        '') usage >&2; exit 1 ;;
        -h | --help) usage; exit 0 ;;
    esac
    [[ $OUT == /* ]] || OUT=$(pwd)/$OUT
    cd "$ROOT"
    WRAPPER=()
    set_up_config
    [[ $JOBS =~ ^[1-9][0-9]?$ ]] || { echo "JOBS=$JOBS: a number from 1 to 99 is wanted" >&2; exit 1; }
    LOGS=$(mktemp -d "${TMPDIR:-/tmp}/etcdlock-test-XXXXXX")
    FAILURES=$LOGS/failures
    : >"$FAILURES"
    trap 'rm -rf "$LOGS"' EXIT
    trap 'stop 130' INT
    trap 'stop 143' TERM
    trap 'stop 129' HUP
    export OUT CONFIG ETCDLOCK_TEST_CLUSTER=$CLUSTER ETCDLOCK_TEST_CLOCK_SHIM=$OUT/test/clock_shim.so
    for kind in "$@"; do
        case $kind in
            unit | sim | live | fault | proof) run_kind "$kind" ;;
            install) run_install ;;
            *) echo "unknown kind $kind: unit, sim, live, fault, proof or install" >&2; exit 1 ;;
        esac
    done
    await 1
    [ "$SKIPPED" = 0 ] || echo "$SKIPPED skipped"
    ((PASSED + FAILED + SKIPPED > 0)) || echo "nothing was run" >&2
    [ ! -s "$FAILURES" ] || { echo "failed:"; sed 's/^/  /' "$FAILURES"; }
    echo "$PASSED passed, $FAILED failed"
    ((FAILED == 0 && PASSED + SKIPPED > 0))
}

main "$@"
