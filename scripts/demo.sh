#!/usr/bin/env bash
# demo.sh: what the lock is good for, on a real cluster of three: `make demo` calls it.
#
#   demo.sh [--json] [--workers N] [--ttl S] [--keep FOLDER]
#
#   --json          prints the account as one JSON object; the progress goes to standard error
#   --workers N     how many processes share the lock, 4 to 16 (default 5)
#   --ttl S         time to live of their sessions, 2 to 10 s (default 3)
#   --keep FOLDER   leaves the journal, the counter and what the workers said in a new folder
#
# Several workers (examples/worker.c) take turns at one lock and add to one counter in a file. One is killed while it
# holds the lock, one is frozen past its time to live and wakes up, and the leader of etcd is killed. Then the
# account says who held when and whether every promise was kept; exit status 0 only if all were.
#
# BUILD=build/release   where the programs were built
# ETCD=FOLDER           the etcd and etcdctl to use, as for cluster.sh
#
# Nothing here waits for a fixed time: each step waits for what the journal says.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SELF=$ROOT/scripts/demo.sh
CLUSTER=$ROOT/scripts/cluster.sh
BUILD=${BUILD:-build/release}
[[ $BUILD == /* ]] || BUILD=$ROOT/$BUILD
HOLD_MS=250 # the work under the lock: long enough to be caught at it
LIMIT_S=60  # no single step takes so long, even on a slow machine
INSIDE=0 JSON=0 WORKERS=5 TTL_S=3 KEEP=''
WORK='' STATUS=0 INTERRUPTED=0

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$SELF"; }
refuse() { printf 'demo: %s; --help says more\n' "$*" >&2; exit 2; }

progress() {
    local began=${BEGAN_US:-${EPOCHREALTIME/./}} tenths
    tenths=$(((${EPOCHREALTIME/./} - began) / 100000))
    printf '%3d.%d s  %s\n' $((tenths / 10)) $((tenths % 10)) "$*" >&3
}

give_up() {
    {
        printf 'demo: FAILED: %s\n' "$*"
        echo "the end of the journal:"
        tail -n 12 "$JOURNAL" 2>/dev/null | sed 's/^/    /'
        tail -n 5 "$WORK"/worker-*.log 2>/dev/null | sed 's/^/    /'
    } >&2
    exit 1
}

# ---- waiting, and being interrupted -------------------------------------------------------------------------------------
#
# A signal only leaves a note, looked at where it is safe, and nothing but `wait` is waited in. Seen with bash 5.2.15:
# one that waits for a foreground command may spin for ever if SIGINT comes at the wrong moment, and one whose trap
# called `exit` aborted when INT and TERM came at once.

checkpoint() {
    [ "$INTERRUPTED" = 0 ] || { echo "demo: interrupted; ending everything" >&2; exit "$INTERRUPTED"; }
}

run() {
    local child status=0
    "$@" <&0 8<&- & # without <&0 it would read /dev/null
    child=$!
    while :; do
        wait "$child" && status=0 || status=$?
        kill -0 "$child" 2>/dev/null || break
        [ "$INTERRUPTED" = 0 ] || kill -TERM "$child" 2>/dev/null || true
    done
    checkpoint
    return "$status"
}

pause() { run sleep 0.03; }

# wait_for WHAT CONDITION...: until the condition holds, looking at the journal each time.
wait_for() {
    local what=$1 until_s=$((SECONDS + LIMIT_S))
    shift
    until read_journal; "$@"; do
        check_workers
        ((SECONDS < until_s)) || give_up "waited $LIMIT_S s in vain for $what"
        pause
    done
}

# The journal is read once more, since a worker may have written its last line and ended since.
check_workers() {
    local pid
    for pid in "${!NUMBER[@]}"; do
        kill -0 "$pid" 2>/dev/null && continue
        read_journal
        [ "${LAST_EVENT[$pid]:-}" = "done" ] || give_up "worker ${NUMBER[$pid]} has ended"
    done
}

# ---- the journal --------------------------------------------------------------------------------------------------------

declare -A NUMBER=()                           # of the living workers, by pid
declare -A LAST_EVENT=() LAST_TOKEN=() HELD=() # by pid, as far as the journal was read
declare -A LEAST=()                            # what HELD is waited to become
HOLDS=0 HIGHEST_WRITTEN=0 PARTIAL=''
LINE='"pid":([0-9]+),"event":"([a-z-]+)","token":([0-9]+)'

# Reads on from where it stopped; the last line may not be whole yet.
read_journal() {
    local line pid event token
    while IFS= read -r line <&8; do
        line=$PARTIAL$line PARTIAL=''
        [[ $line =~ $LINE ]] || give_up "the journal has a line that is no event: $line"
        pid=${BASH_REMATCH[1]} event=${BASH_REMATCH[2]} token=${BASH_REMATCH[3]}
        [ -n "${NUMBER[$pid]:-}" ] || continue
        case $event in started | killed | frozen | resumed | failed) continue ;; esac
        LAST_EVENT[$pid]=$event LAST_TOKEN[$pid]=$token
        if [ "$event" = held ]; then HELD[$pid]=$((${HELD[$pid]:-0} + 1)) HOLDS=$((HOLDS + 1)); fi
        if [ "$event" = written ] && ((token > HIGHEST_WRITTEN)); then HIGHEST_WRITTEN=$token; fi
    done
    PARTIAL+=$line
}

# note EVENT PID [TOKEN [COUNTER]]: what was done to the workers, in their journal and on their clock.
note() {
    local up_s
    read -r up_s _ </proc/uptime
    printf '{"ms":%d,"pid":%d,"event":"%s","token":%d,"counter":%d}\n' $((10#${up_s/./} * 10)) "$2" "$1" "${3:-0}" "${4:-0}" \
        >>"$JOURNAL"
}

# ---- conditions ---------------------------------------------------------------------------------------------------------

everybody_held() {
    local pid
    for pid in "${!NUMBER[@]}"; do ((${HELD[$pid]:-0} >= LEAST[$pid])) || return 1; done
}

somebody_holds() {
    for HOLDER in "${!NUMBER[@]}"; do [ "${LAST_EVENT[$HOLDER]:-}" != held ] || return 0; done
    return 1
}

someone_wrote_above() { ((HIGHEST_WRITTEN > $1)); }
holds_reached() { ((HOLDS >= $1)); }
last_event_is_not() { [ "${LAST_EVENT[$1]}" != "$2" ]; }
nobody_runs() {
    jobs -rp >"$WORK/running"
    [ ! -s "$WORK/running" ]
}

is_stopped() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || give_up "worker ${NUMBER[$1]} has ended"
    [[ ${line##*) } == [Tt]* ]]
}

# ---- what is done to the workers -------------------------------------------------------------------------------------------

start_workers() {
    local number
    for ((number = 1; number <= WORKERS; number++)); do
        "$BUILD/examples/worker" --name demo/counter --file "$COUNTER" --journal "$JOURNAL" --ttl "$TTL_S" \
            --hold-ms "$HOLD_MS" 2>"$WORK/worker-$number.log" 8<&- &
        NUMBER[$!]=$number
        note started $! 0 "$number"
    done
}

# Lets every worker hold the lock once more.
one_more_turn() {
    local pid
    read_journal
    for pid in "${!NUMBER[@]}"; do LEAST[$pid]=$((${HELD[$pid]:-0} + 1)); done
    wait_for "every worker to hold once more" everybody_held
}

# Stops a worker in the middle of its work and sets HOLDER: not before or after, nor in the instant of writing, when
# it has the file's flock and would stand in everybody's way.
catch_holder() {
    while :; do
        wait_for "a holder" somebody_holds
        kill -STOP "$HOLDER"
        wait_for "worker ${NUMBER[$HOLDER]} to stop" is_stopped "$HOLDER"
        if run flock -n "$COUNTER" true; then
            read_journal
            [ "${LAST_EVENT[$HOLDER]}" != held ] || return 0
        fi
        kill -CONT "$HOLDER"
        pause
    done
}

kill_a_holder() {
    local token number
    catch_holder
    token=${LAST_TOKEN[$HOLDER]} number=${NUMBER[$HOLDER]}
    unset "NUMBER[$HOLDER]"
    note killed "$HOLDER" "$token" # it is stopped: from here on it holds nothing
    kill -KILL "$HOLDER"
    wait "$HOLDER" 2>/dev/null || true # here bash says that it was killed
    progress "worker $number is killed while it holds the lock, with token $token (SIGKILL)"
    wait_for "another to take over from the killed worker" someone_wrote_above "$token"
    progress "another worker has taken over"
    one_more_turn
}

freeze_a_holder() {
    local token number
    catch_holder
    token=${LAST_TOKEN[$HOLDER]} number=${NUMBER[$HOLDER]}
    note frozen "$HOLDER" "$token"
    progress "worker $number is frozen while it holds the lock, with token $token (SIGSTOP)"
    wait_for "another to take over from the frozen worker" someone_wrote_above "$token"
    note resumed "$HOLDER" "$token"
    kill -CONT "$HOLDER"
    progress "another worker has taken over; worker $number is resumed and goes on with its work"
    wait_for "the frozen worker to write" last_event_is_not "$HOLDER" held
    one_more_turn
    progress "worker $number has held the lock again, with a new session"
}

kill_the_leader() {
    local leader
    run "$CLUSTER" leader >"$WORK/leader" || give_up "etcd has no leader"
    leader=$(<"$WORK/leader")
    note leader-stopped "$leader"
    run "$CLUSTER" kill "$leader" || give_up "the leader cannot be killed"
    progress "etcd's leader, member $leader, is killed (SIGKILL)"
    read_journal
    wait_for "the lock to change hands without the old leader" holds_reached $((HOLDS + 3))
    progress "the lock changes hands again; member $leader is started again"
    run "$CLUSTER" restart "$leader" || give_up "member $leader does not start again"
    note leader-back "$leader"
    read_journal
    one_more_turn
}

finish_workers() {
    local pid status
    progress "the others are told to finish"
    kill -TERM "${!NUMBER[@]}"
    wait_for "the workers to end" nobody_runs
    for pid in "${!NUMBER[@]}"; do
        status=0
        wait "$pid" || status=$?
        [ "$status" = 0 ] || note failed "$pid" 0 "$status"
    done
}

# ---- the demo ---------------------------------------------------------------------------------------------------------------

# Only what is still ours: a job that bash knows to have ended is not in its list, and its pid may be another's by now.
clean_up() {
    local pid pids=()
    trap '' INT TERM HUP
    if [ -n "$WORK" ]; then
        exec 4>&2 2>/dev/null # bash tells of each killed job, at a moment of its own choice
        jobs -rp >"$WORK/running"
        mapfile -t pids <"$WORK/running"
        for pid in ${pids[@]+"${pids[@]}"}; do kill -KILL "$pid" || true; done
        wait || true
        rm -f "$WORK/running" "$WORK/leader"
        [ -z "$KEEP" ] || cp -r "$WORK" "$KEEP" 2>&4 || true
        rm -rf "$WORK" 2>&4
    fi
    exit "$STATUS"
}

# Runs inside `cluster.sh run`, which ends the cluster however we end.
demo() {
    BEGAN_US=${EPOCHREALTIME/./}
    trap 'STATUS=$?; clean_up' EXIT
    trap 'INTERRUPTED=130' INT
    trap 'INTERRUPTED=143' TERM
    trap 'INTERRUPTED=129' HUP
    unset "${!ETCDLOCK_@}" # somebody's settings are not the demo's
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/etcdlock-demo-XXXXXX")
    JOURNAL=$WORK/journal COUNTER=$WORK/counter
    : >"$JOURNAL"
    exec 8<"$JOURNAL"
    progress "$WORKERS workers share one lock; sessions live $TTL_S s, the work under the lock takes $HOLD_MS ms"
    start_workers
    one_more_turn
    progress "every worker has held the lock once"
    kill_a_holder
    freeze_a_holder
    kill_the_leader
    finish_workers
    print_account
}

print_account() {
    local status=0
    run "$BUILD/examples/account" --ttl "$TTL_S" --file "$COUNTER" "$JOURNAL" >"$WORK/account.json" || status=$?
    ((status <= 1)) || give_up "there is no account"
    if [ "$JSON" = 1 ]; then
        run cat "$WORK/account.json"
    else
        run "$BUILD/examples/account_text" <"$WORK/account.json" || status=$?
    fi
    if [ "$status" != 0 ]; then tail -n 5 "$WORK"/worker-*.log >&2; fi
    exit "$status"
}

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            --inside) INSIDE=1; shift ;;
            --json) JSON=1; shift ;;
            --workers) WORKERS=${2:-}; shift $(($# > 1 ? 2 : 1)) ;;
            --ttl) TTL_S=${2:-}; shift $(($# > 1 ? 2 : 1)) ;;
            --keep) KEEP=${2:-}; [ -n "$KEEP" ] || refuse "--keep needs a folder"; shift 2 ;;
            -h | --help) usage; exit 0 ;;
            *) refuse "unknown argument $1" ;;
        esac
    done
    [[ $WORKERS =~ ^([4-9]|1[0-6])$ ]] || refuse "--workers takes 4 to 16"
    [[ $TTL_S =~ ^([2-9]|10)$ ]] || refuse "--ttl takes 2 to 10 seconds"
    [ -z "$KEEP" ] || [ ! -e "$KEEP" ] || refuse "$KEEP exists already"
}

main() {
    local program
    parse "$@"
    exec 3>&1
    [ "$JSON" = 0 ] || exec 3>&2
    if [ "$INSIDE" = 1 ]; then demo; fi
    for program in worker account account_text; do
        [ -x "$BUILD/examples/$program" ] || refuse "$BUILD/examples/$program is not there: run make first"
    done
    echo "starting a cluster of three etcd members ..." >&3
    exec "$CLUSTER" run -n 3 --tmpfs -- "$SELF" --inside "$@" 3>&-
}

main "$@"
