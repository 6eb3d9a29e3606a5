#!/usr/bin/env bash
# cluster.sh: a local etcd cluster of 1 or 3 members, for trying things out and for the tests.
#
#   cluster.sh start [-n 1|3] [--tmpfs] [--netns] [--tls] [--auth [--auth-token-ttl S]] [-- ETCD_FLAG...]
#                            starts it on free ports and waits until it is healthy
#   cluster.sh stop          ends it and removes its folder; nothing to stop is no error
#   cluster.sh status        each member: number, state, process, client address, leader or not
#   cluster.sh endpoints     the client addresses, host:port, comma-separated
#   cluster.sh env           export lines for the shell: eval "$(scripts/cluster.sh env)"
#   cluster.sh leader        the number of the leader; waits for an election under way
#   cluster.sh pid M         the process id of member M
#   cluster.sh kill M        SIGKILL          cluster.sh restart M   starts it again with its data
#   cluster.sh pause M       SIGSTOP          cluster.sh resume M    SIGCONT
#   cluster.sh isolate M     cuts M from the other members, not from clients; needs start --netns
#   cluster.sh heal M        ends that
#   cluster.sh can-netns     exit status 0 if network namespaces may be made here
#   cluster.sh run [OPTION of start]... [--etcd-flag FLAG]... -- COMMAND...
#                            a cluster for one command, in a folder of its own, stopped however the command
#                            ends; sets what env prints, ETCDLOCK_TEST_ENDPOINTS and CLUSTER_DIR, and exits
#                            as the command does
#
# Every command takes -d DIR: the cluster's folder (default: CLUSTER_DIR, else a private one under TMPDIR).
# ETCD=FOLDER names the folder of the etcd and etcdctl to use (default: the ones in PATH).
# --tmpfs keeps the data in /dev/shm and leaves out fsync: quick, and gone when the machine stops.
# --tls: the members listen on 127.0.0.1, .2 and .3, each with a certificate for its own address alone, and want one of
#   the client; env names it in ETCDLOCK_TEST_CA, _CERT and _KEY, and for etcdctl.
# --auth: users root (password rootpw, may do all) and locker (lockerpw, keys that begin with t/); env sets
#   ETCDLOCK_TEST_USER and _PASSWORD to the latter, and gives etcdctl the former.
set -euo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")
CLAIMS=/tmp/etcdlock-ports-$UID # one file per port or network in use, naming the cluster that uses it
MARK=etcdlock-cluster           # tells a cluster's folder from somebody's documents
START_LIMIT_S=30
DIR=${CLUSTER_DIR:-${TMPDIR:-/tmp}/etcdlock-cluster-$UID}
SIZE=1 TMPFS=0 NETNS=0 TLS=0 AUTH=0 EXTRA_FLAGS=() REST=()
STARTING=0 INTERRUPTED=0 CHILD=''

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$SELF"; }
say() { printf 'cluster: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# In a child $$ is the script itself: where that was killed, what is under way ends too.
checkpoint() {
    kill -0 $$ 2>/dev/null || INTERRUPTED=137
    [ "$INTERRUPTED" = 0 ] || { say "interrupted"; exit "$INTERRUPTED"; }
}

# shellcheck source=scripts/cluster/addresses.sh
. "${SELF%/*}/cluster/addresses.sh"
# shellcheck source=scripts/cluster/networks.sh
. "${SELF%/*}/cluster/networks.sh"
# shellcheck source=scripts/cluster/credentials.sh
. "${SELF%/*}/cluster/credentials.sh"
# shellcheck source=scripts/cluster/member.sh
. "${SELF%/*}/cluster/member.sh"

# ---- the cluster's folder -----------------------------------------------------------------------------------------

require_cluster() {
    [ -s "$DIR/$MARK" ] || die "no cluster in $DIR: scripts/cluster.sh start makes one"
    [ -O "$DIR" ] || die "$DIR belongs to somebody else"
    SIZE=$(<"$DIR/size")
}

require_member() {
    require_cluster
    MEMBER=${REST[0]:-0}
    [[ $MEMBER =~ ^[1-$SIZE]$ ]] || die "which member? one of 1 to $SIZE"
}

# Removes the cluster and what belongs to it, and nothing else that may lie in its folder.
remove_cluster() {
    local member shm
    trap '' INT TERM HUP
    [ -e "$DIR/$MARK" ] || return 0
    for member in 1 2 3; do kill_member "$member"; done
    remove_networks
    shm=$(cat "$DIR/shm" 2>/dev/null || true)
    [[ $shm != /dev/shm/etcdlock-* ]] || rm -rf "$shm"
    rm -rf "$DIR"/[123] "$DIR"/{size,flags,programs,netns,shm,tls,auth}
    release_claims
    rm -f "$DIR/$MARK"
    rmdir "$DIR" 2>/dev/null || true
}

# etcd sets aside two 64 MB log segments per member, and tmpfs gives them memory at once.
prepare_tmpfs() {
    local free_kb
    free_kb=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1 || echo 0)
    if ((free_kb < SIZE * 160 * 1024)); then
        say "/dev/shm has less than $((SIZE * 160)) MB free: the data goes to $DIR instead"
        return 0
    fi
    mktemp -d "/dev/shm/etcdlock-$UID-XXXXXX" >"$DIR/shm"
    if "$(program etcd)" --help 2>&1 | grep -e '--unsafe-no-fsync' >/dev/null; then echo --unsafe-no-fsync >>"$DIR/flags"; fi
}

prepare_folder() {
    local member
    [ -d "$DIR" ] || (umask 077 && mkdir -p "$DIR")
    [ -O "$DIR" ] || die "$DIR belongs to somebody else: choose another folder with -d"
    STARTING=1
    echo "etcdlock-$$-$RANDOM" >"$DIR/$MARK"
    echo "$SIZE" >"$DIR/size"
    dirname "$(program etcd)" >"$DIR/programs"
    : >"$DIR/flags"
    [ "$TMPFS" = 0 ] || prepare_tmpfs
    [ ${#EXTRA_FLAGS[@]} = 0 ] || printf '%s\n' "${EXTRA_FLAGS[@]}" >>"$DIR/flags"
    for ((member = 1; member <= SIZE; member++)); do
        mkdir "$DIR/$member"
        if [ -s "$DIR/shm" ]; then
            mkdir -m 700 "$(<"$DIR/shm")/$member"
            ln -s "$(<"$DIR/shm")/$member" "$DIR/$member/data"
        fi
    done
}

refuse_running() {
    local member
    [ -e "$DIR/$MARK" ] || return 0
    [ -O "$DIR" ] || die "$DIR belongs to somebody else: choose another folder with -d"
    for member in 1 2 3; do
        is_alive "$member" && die "a cluster runs in $DIR already: scripts/cluster.sh stop ends it, -d DIR chooses another folder"
    done
    (remove_cluster)
}

# 1: an address was taken by another program between our look and etcd's bind.
start_once() {
    local member
    prepare_folder
    checkpoint
    choose_addresses
    if [ "$NETNS" = 1 ]; then make_networks; fi
    if [ "$TLS" = 1 ]; then prepare_tls; fi
    for ((member = 1; member <= SIZE; member++)); do
        checkpoint
        launch_member "$member" new
    done
    if await_healthy; then
        if [ "$AUTH" = 1 ]; then enable_auth; fi
        return 0
    fi
    grep -q 'address already in use' "$DIR"/[123]/log && return 1
    die "the cluster did not become healthy"
}

start_cluster() {
    local attempt
    [ "$SIZE" = 1 ] || [ "$SIZE" = 3 ] || die "-n takes 1 or 3"
    program etcd >/dev/null && program etcdctl >/dev/null
    [ "$NETNS" = 0 ] || require_netns
    refuse_running
    for attempt in 1 2 3 4 5; do
        if start_once; then STARTING=0; return; fi
        say "an address was taken meanwhile; trying others ($attempt)"
        (remove_cluster)
    done
    die "found no free ports in 5 attempts"
}

# Runs "$@" in a child that Ctrl-C does not reach, and passes INT, TERM and HUP on to it as TERM. That only leaves a
# note there, looked at where it is safe: between a fork and the record of its pid nothing may be cut short. What
# the child has made and not finished it takes back. Only `wait` runs here, since a bash that waits for a
# foreground command may spin for ever if SIGINT comes at the wrong moment (seen with 5.2.15).
guarded() {
    local status=0
    trap 'forward 130' INT
    trap 'forward 143' TERM
    trap 'forward 129' HUP
    guarded_child "$@" <&0 &
    CHILD=$!
    [ "$INTERRUPTED" = 0 ] || kill -TERM "$CHILD" 2>/dev/null || true
    while :; do
        wait "$CHILD" && status=0 || status=$?
        kill -0 "$CHILD" 2>/dev/null || break
    done
    [ "$status" = 0 ] || [ "$INTERRUPTED" = 0 ] || status=$INTERRUPTED
    exit "$status"
}

guarded_child() {
    trap '' INT
    trap 'forward 143' TERM HUP
    trap 'if [ "$STARTING" = 1 ]; then remove_cluster; fi' EXIT
    CHILD=''
    "$@"
}

forward() {
    INTERRUPTED=$1
    [ -z "$CHILD" ] || kill -TERM "$CHILD" 2>/dev/null || true
}

# ---- commands ---------------------------------------------------------------------------------------------------

command_start() { guarded start_and_tell; }

start_and_tell() {
    local began=${EPOCHREALTIME/./}
    EXTRA_FLAGS+=(${REST[@]+"${REST[@]}"})
    start_cluster
    say "$SIZE member(s) ready after $(((${EPOCHREALTIME/./} - began) / 1000)) ms in $DIR; clients: $(command_endpoints)"
}

command_stop() {
    [ -e "$DIR/$MARK" ] || return 0
    [ -O "$DIR" ] || die "$DIR belongs to somebody else"
    remove_cluster
}

command_endpoints() {
    local member list=
    require_cluster
    for ((member = 1; member <= SIZE; member++)); do list+=,$(<"$DIR/$member/client"); done
    echo "${list#,}"
}

# Sets and exports what a client needs to know.
export_environment() {
    local member list=
    unset "${!ETCDCTL_@}"
    for ((member = 1; member <= SIZE; member++)); do list+=,$(has_tls && echo https://)$(<"$DIR/$member/client"); done
    export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=${list#,}
    export_credentials
}

command_env() (
    require_cluster
    unset "${!ETCDLOCK_TEST_@}"
    export_environment
    for variable in "${!ETCDCTL_@}" "${!ETCDLOCK_TEST_@}"; do
        if [[ ${!variable} =~ ^[[:alnum:]_./:,-]*$ ]]; then
            echo "export $variable=${!variable}"
        else
            printf 'export %s=%q\n' "$variable" "${!variable}"
        fi
    done
)

# Sets LEADER: the member that calls itself leader in the highest term; an isolated one may still call itself so.
find_leader() {
    local member id leader term highest=-1
    LEADER=
    for ((member = 1; member <= SIZE; member++)); do
        if ! is_alive "$member" || is_paused "$member"; then continue; fi
        read -r id leader term <<<"$(member_view "$member" || echo 0 1 0)"
        if [ "$id" = "$leader" ] && ((term > highest)); then LEADER=$member highest=$term; fi
    done
    [ -n "$LEADER" ]
}

command_leader() {
    local until_s=$((SECONDS + 15))
    require_cluster
    until find_leader; do
        ((SECONDS < until_s)) || die "no member calls itself leader"
        sleep 0.1
    done
    echo "$LEADER"
}

command_status() {
    local member state
    require_cluster
    find_leader || true
    for ((member = 1; member <= SIZE; member++)); do
        state=running
        if ! is_alive "$member"; then state=dead PID=-; elif is_paused "$member"; then state=paused; fi
        [ ! -e "$DIR/$member/isolated" ] || state+=,isolated
        printf 'member %s  %-18s pid %-8s %s%s\n' "$member" "$state" "$PID" "$(<"$DIR/$member/client")" \
            "$([ "$member" != "$LEADER" ] || echo '  leader')"
    done
}

command_pid() {
    require_member
    is_alive "$MEMBER" || die "member $MEMBER does not run"
    echo "$PID"
}

command_kill() {
    require_member
    kill_member "$MEMBER"
}

command_pause() {
    local tries
    require_member
    signal_member STOP "$MEMBER" || die "member $MEMBER does not run"
    for ((tries = 0; tries < 200; tries++)); do
        is_paused "$MEMBER" && return 0
        sleep 0.01
    done
    die "member $MEMBER does not stop"
}

command_resume() {
    require_member
    signal_member CONT "$MEMBER" || die "member $MEMBER does not run"
}

# A member cannot answer before a majority can be reached: with too few others alive, its open port has to do.
restart_member() {
    local member reachable=0 until_s=$((SECONDS + START_LIMIT_S))
    kill_member "$MEMBER"
    launch_member "$MEMBER" existing
    for ((member = 1; member <= SIZE; member++)); do
        is_alive "$member" && ! is_paused "$member" && [ ! -e "$DIR/$member/isolated" ] && reachable=$((reachable + 1))
    done
    if ((2 * reachable > SIZE)) && [ ! -e "$DIR/$MEMBER/isolated" ]; then
        await_answer "$MEMBER" "$until_s"
    else
        await_listening "$MEMBER" "$until_s"
    fi
}

command_restart() {
    require_member
    guarded restart_member
}

require_isolation() {
    require_member
    [ -s "$DIR/netns" ] || die "members can be isolated only in network namespaces: start the cluster with --netns (needs root)"
}

command_isolate() {
    require_isolation
    ip -n "$(netns_name h)" link set "p$MEMBER" nomaster
    : >"$DIR/$MEMBER/isolated"
}

command_heal() {
    require_isolation
    ip -n "$(netns_name h)" link set "p$MEMBER" master br0
    rm -f "$DIR/$MEMBER/isolated"
}

command_can-netns() { can_netns; }

# Sees to the end of a run that was itself killed: its standard input ends when the run does.
command_keep() {
    trap '' INT TERM HUP
    cat >/dev/null
    command_stop
}

# A command that does not end within 10 s of the TERM that was passed on to it is killed.
await_command() {
    local status=0 tries
    while :; do
        wait "$CHILD" && status=0 || status=$?
        kill -0 "$CHILD" 2>/dev/null || break
        if [ "$INTERRUPTED" != 0 ]; then
            for ((tries = 0; tries < 100; tries++)); do
                kill -0 "$CHILD" 2>/dev/null || break
                sleep 0.1 || true
            done
            kill -KILL "$CHILD" 2>/dev/null || true
        fi
    done
    CHILD=''
    return "$status"
}

run_inside() {
    local status=0 unignore=()
    start_cluster
    STARTING=1 # what was started is taken back, now at every exit
    exec 8>&-  # from here on the keeper acts at once if the run is killed; until now it would have got in our way
    checkpoint
    export_environment
    ETCDLOCK_TEST_ENDPOINTS=$(command_endpoints)
    export ETCDLOCK_TEST_ENDPOINTS CLUSTER_DIR=$DIR
    [ -z "${ETCD:-}" ] || export PATH=$ETCD:$PATH
    # We ignore SIGINT and the command must not; a shell cannot undo that for its children.
    if env --default-signal=INT true 2>/dev/null; then unignore=(env '--default-signal=INT,QUIT'); fi
    "${unignore[@]}" "${REST[@]}" <&0 &
    CHILD=$!
    [ "$INTERRUPTED" = 0 ] || kill -TERM "$CHILD" 2>/dev/null || true
    await_command || status=$?
    exit "$status"
}

command_run() {
    [ ${#REST[@]} -gt 0 ] || die "run needs a command: scripts/cluster.sh run -n 3 -- COMMAND..."
    DIR=${TMPDIR:-/tmp}/etcdlock-run-$UID-$$-$RANDOM
    exec 8> >(CLUSTER_DIR=$DIR exec setsid "$SELF" keep)
    guarded run_inside
}

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            -n) SIZE=${2:?-n needs 1 or 3}; shift 2 ;;
            -d) DIR=${2:?-d needs a folder}; shift 2 ;;
            --tmpfs) TMPFS=1; shift ;;
            --netns) NETNS=1; shift ;;
            --tls) TLS=1; shift ;;
            --auth) AUTH=1; shift ;;
            --auth-token-ttl) EXTRA_FLAGS+=("--auth-token-ttl=${2:?--auth-token-ttl needs seconds}"); shift 2 ;;
            --etcd-flag) EXTRA_FLAGS+=("${2:?--etcd-flag needs a flag}"); shift 2 ;;
            --etcd-flag=*) EXTRA_FLAGS+=("${1#*=}"); shift ;;
            -h | --help) usage; exit 0 ;;
            --) shift; REST+=("$@"); return ;;
            -*) die "unknown option $1; --help lists them" ;;
            *) REST+=("$1"); shift ;;
        esac
    done
}

main() {
    local command=${1:-}
    case $command in
        '' | -h | --help | help) usage; [ -n "$command" ]; exit ;;
    esac
    declare -F "command_$command" >/dev/null || die "unknown command $command; --help lists them"
    shift
    parse "$@"
    [[ $DIR == /* ]] || DIR=$PWD/$DIR
    "command_$command"
}

main "$@"
