#!/usr/bin/env bash
# bench.sh: measures the library against its peers, in turn within one run. `make bench` calls it.
#
#   bench.sh            starts one etcd on tmpfs with the peers' servers, then three members on disk; runs the cases,
#                       prints the table and leaves build/bench.json and build/bench.run (when, where, with what)
#
# ONLY=case,case      these cases only (a wrong name gets the list)
# ROUNDS=3            slices of each party per case
# SECONDS_EACH=2.5    how long a slice is
# MEMBERS=1|3         only with one member, or only with three
# BUILD=build/release where the programs are
# ETCD=FOLDER         the etcd and etcdctl to use, as for cluster.sh
#
# Exit status 1 if a slice had errors in it, or a server could not be started. A missed goal is no error: the table
# says so. doc/benchmarks.md explains the cases and what each peer guarantees.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SELF=$ROOT/scripts/bench.sh
CLUSTER=$ROOT/scripts/cluster.sh
BUILD=${BUILD:-build/release}
[[ $BUILD == /* ]] || BUILD=$ROOT/$BUILD
PROGRAMS=$BUILD/test/bench
RESULTS=$ROOT/build/bench.json
SERVERS=() FOLDER=''

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$SELF"; }
say() { printf 'bench: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# ---- the peers' servers ---------------------------------------------------------------------------------------------

# shellcheck disable=SC2317 # called by a trap
stop_servers() {
    local pid
    for pid in ${SERVERS[@]+"${SERVERS[@]}"}; do kill -KILL "$pid" 2>/dev/null || true; done
    [ -z "$FOLDER" ] || rm -rf "$FOLDER"
}

# Of the server just started; bash is not to tell when it is killed.
keep_track() {
    SERVERS+=($!)
    disown $!
}

# claim_ports N: prints free ports, claimed for as long as the cluster lives.
claim_ports() (
    DIR=$CLUSTER_DIR
    # shellcheck disable=SC2034 # addresses.sh's variables
    CLAIMS=/tmp/etcdlock-ports-$UID MARK=etcdlock-cluster
    # shellcheck source=scripts/cluster/addresses.sh
    . "$ROOT/scripts/cluster/addresses.sh"
    lock_claims
    pick_ports "$1"
    unlock_claims
)

await_port() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
        sleep 0.05
    done
    die "the server for $2 does not listen; its log: $(tail -n 3 "$FOLDER/$2.log")"
}

# Three of them, without persistence, on loopback as etcd is.
start_redis() {
    local port list=''
    command -v redis-server >/dev/null && [ -x "$PROGRAMS/redlock" ] || return 0
    for port in $(claim_ports 3); do
        redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$FOLDER" >"$FOLDER/redis.log" 2>&1 &
        keep_track
        await_port "$port" redis
        list+=,127.0.0.1:$port
    done
    export BENCH_REDIS=${list#,}
}

# One server, its log on tmpfs and not synced, as etcd's is.
start_zookeeper() {
    local port jar=/usr/share/java/zookeeper.jar
    command -v java >/dev/null && [ -e "$jar" ] && [ -x "$PROGRAMS/zookeeper" ] || return 0
    port=$(claim_ports 1)
    mkdir "$FOLDER/zookeeper"
    printf '%s\n' "dataDir=$FOLDER/zookeeper" "clientPort=$port" clientPortAddress=127.0.0.1 tickTime=2000 \
        maxClientCnxns=0 admin.enableServer=false >"$FOLDER/zookeeper.cfg"
    java -Xmx1g -Dzookeeper.forceSync=no -cp "$jar" org.apache.zookeeper.server.quorum.QuorumPeerMain \
        "$FOLDER/zookeeper.cfg" >"$FOLDER/zookeeper.log" 2>&1 &
    keep_track
    await_port "$port" zookeeper
    export BENCH_ZOOKEEPER=127.0.0.1:$port
}

# Debian has etcd's Go client as source: nothing is downloaded.
build_go() {
    local source=$ROOT/test/bench/peers/go program=$ROOT/build/bench_go
    command -v go >/dev/null && [ -d /usr/share/gocode/src/go.etcd.io/etcd/clientv3 ] || return 0
    if [ ! -x "$program" ] || [ -n "$(find "$source" -newer "$program" -name '*.go')" ]; then
        say "building the worker in Go"
        (cd "$source" && GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$ROOT/build/go-cache go build -o "$program" .)
    fi
    export BENCH_GO=$program
}

# ---- the run --------------------------------------------------------------------------------------------------------

# Inside `cluster.sh run`: with the cluster's endpoints in the environment.
run_inside() {
    local members=$1 words=()
    FOLDER=$(mktemp -d /dev/shm/etcdlock-bench-XXXXXX)
    trap stop_servers EXIT
    trap 'exit 143' TERM INT HUP
    if [ "$members" = 1 ]; then
        start_redis
        start_zookeeper
    fi
    [ -z "${ONLY:-}" ] || words=("$ONLY")
    "$PROGRAMS/bench" run "$PROGRAMS" "$CLUSTER" "$members" "${ROUNDS:-3}" "${SECONDS_EACH:-2.5}" "$RESULTS" \
        ${words[@]+"${words[@]}"} &
    SERVERS+=($!)
    wait $!
}

# One sentence for the reader of the table.
describe() {
    local cpu etcd
    cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    etcd=$("${ETCD:+$ETCD/}etcd" --version | sed -n 's/^etcd Version: //p')
    printf 'Measured on %s, %s cores (%s), %s MB of memory, Linux %s, etcd %s' "$(date -u +%Y-%m-%d)" "$(nproc)" "$cpu" \
        "$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)" "$(uname -r)" "$etcd"
    # shellcheck disable=SC2016 # the backquotes are Markdown's
    printf ', by `make bench%s%s%s%s`, commit %s.\n' "${ONLY:+ ONLY=$ONLY}" "${ROUNDS:+ ROUNDS=$ROUNDS}" \
        "${SECONDS_EACH:+ SECONDS_EACH=$SECONDS_EACH}" "${MEMBERS:+ MEMBERS=$MEMBERS}" \
        "$(git -C "$ROOT" rev-parse --short HEAD 2>/dev/null || echo unknown)"
}

main() {
    local members status=0 storage
    case ${1:-} in
        -h | --help) usage; exit 0 ;;
        --inside) run_inside "$2"; exit ;;
    esac
    [[ ${MEMBERS:-} =~ ^[13]?$ ]] || die "MEMBERS takes 1 or 3; --help says more"
    [ -x "$PROGRAMS/bench" ] || die "$PROGRAMS/bench is not built: make bench"
    mkdir -p "$ROOT/build"
    build_go
    rm -f "$RESULTS"
    export BUILD
    for members in 1 3; do
        [ "${MEMBERS:-$members}" = "$members" ] || continue
        storage=()
        [ "$members" = 3 ] || storage=(--tmpfs)
        "$CLUSTER" run -n "$members" ${storage[@]+"${storage[@]}"} -- "$SELF" --inside "$members" || status=$?
    done
    [ -s "$RESULTS" ] || exit 1
    describe | tee "$ROOT/build/bench.run"
    "$PROGRAMS/bench" table "$RESULTS"
    exit "$status"
}

main "$@"
