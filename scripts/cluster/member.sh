# shellcheck shell=bash
# member.sh: one member: its process, how it is started, what it answers.
# Sourced by cluster.sh; run on its own it does nothing.
# shellcheck disable=SC2154,SC2034 # DIR, SIZE, CLAIMS ... are cluster.sh's variables

# ---- processes: a pid counts only together with the start time that was recorded for it ----------------------

# Sets PROC_STATE and PROC_START. The program's name may hold blanks, so fields are counted after its parenthesis.
read_proc() {
    local line fields
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    read -ra fields <<<"${line##*) }"
    PROC_STATE=${fields[0]} PROC_START=${fields[19]}
}

# Sets PID if member $1 runs (or is paused).
is_alive() {
    local start
    { read -r PID start <"$DIR/$1/pid"; } 2>/dev/null || return 1
    read_proc "$PID" && [ "$PROC_START" = "$start" ] && { [[ $PROC_STATE != [ZX] ]] || has_threads "$PID"; }
}

# Of a killed process the first thread may be over while others still hold its sockets and files.
has_threads() {
    local threads=("/proc/$1/task"/*)
    ((${#threads[@]} > 1))
}

is_paused() { is_alive "$1" && [[ $PROC_STATE == [Tt] ]]; }

signal_member() { is_alive "$2" && kill -s "$1" "$PID" 2>/dev/null; }

kill_member() {
    local tries
    signal_member KILL "$1" || return 0
    for ((tries = 0; tries < 500; tries++)); do
        is_alive "$1" || return 0
        sleep 0.01 || true
    done
    die "member $1 (process $PID) does not end after SIGKILL"
}

# ---- etcd -----------------------------------------------------------------------------------------------------

# The program $1: from ETCD, else where the cluster was started from, else from PATH.
program() {
    local folder=${ETCD:-}
    [ -n "$folder" ] || { [ -s "$DIR/programs" ] && folder=$(<"$DIR/programs"); } || true
    if [ -z "$folder" ]; then
        command -v "$1" || die "no $1 in PATH: run scripts/setup.sh, or set ETCD to the folder of etcd and etcdctl"
    elif [ -x "$folder/$1" ]; then
        echo "$(cd "$folder" && pwd)/$1"
    else
        die "no program $1 in $folder (from ETCD)"
    fi
}

etcdctl() (
    unset "${!ETCDCTL_@}" http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
    export_etcdctl_credentials
    exec "$(program etcdctl)" --dial-timeout=1s --command-timeout=1s "$@" 2>/dev/null 8>&- 9<&-
)

initial_cluster() {
    local member list=
    for ((member = 1; member <= SIZE; member++)); do list+=,member$member=http://$(<"$DIR/$member/peer"); done
    echo "${list#,}"
}

close_inherited_files() {
    local file
    for file in /proc/self/fd/*; do
        file=${file##*/}
        [ "$file" -le 2 ] || eval "exec $file>&-"
    done
}

# Becomes etcd. Runs in a child; writes the pid itself, so that even a killed start leaves a record for stop.
exec_member() {
    local member=$1 state=$2 etcd=$3 client peer flags=() wrap=(setsid)
    read_proc "$BASHPID"
    echo "$BASHPID $PROC_START" >"$DIR/$member/pid"
    client=$(client_url "$member") peer=http://$(<"$DIR/$member/peer")
    mapfile -t flags < <(tls_flags "$member"; cat "$DIR/flags")
    [ ! -s "$DIR/netns" ] || wrap+=(nsenter "--net=/run/netns/$(netns_name "m$member")")
    # etcd reads its settings from ETCD_* too, and would send its peers' traffic through a proxy.
    unset "${!ETCD_@}" http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
    exec </dev/null >>"$DIR/$member/log" 2>&1
    close_inherited_files
    exec "${wrap[@]}" "$etcd" --name="member$member" --data-dir="$DIR/$member/data" \
        --listen-client-urls="$client" --advertise-client-urls="$client" \
        --listen-peer-urls="$peer" --initial-advertise-peer-urls="$peer" \
        --initial-cluster="$(initial_cluster)" --initial-cluster-token="$(<"$DIR/$MARK")" \
        --initial-cluster-state="$state" --logger=zap --log-outputs=stderr "${flags[@]}"
}

launch_member() {
    local child etcd
    etcd=$(program etcd)
    rm -f "$DIR/$1/pid"
    (exec_member "$1" "$2" "$etcd") &
    child=$!
    while [ ! -s "$DIR/$1/pid" ] && [ -e "$DIR/$MARK" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01 || true; done
    if [ ! -s "$DIR/$1/pid" ]; then
        kill -KILL "$child" 2>/dev/null || true
        die "member $1 could not be started"
    fi
    disown "$child" 2>/dev/null || true
}

# Prints "<member id> <leader id> <raft term>" as member $1 sees it; no leader: id 0.
member_view() {
    local answer id leader=0 term=0
    answer=$(etcdctl --endpoints="$(client_url "$1")" endpoint status --write-out=json) || return 1
    [[ $answer =~ \"member_id\":([0-9]+) ]] || return 1
    id=${BASH_REMATCH[1]}
    [[ $answer =~ \"leader\":([0-9]+) ]] && leader=${BASH_REMATCH[1]}
    [[ $answer =~ \"raft(_t|T)erm\":([0-9]+) ]] && term=${BASH_REMATCH[2]}
    [[ $answer =~ \"raft_term\":([0-9]+).*\"raftTerm\":([0-9]+) ]] && term=${BASH_REMATCH[2]}
    echo "$id $leader $term"
}

member_failed() {
    say "member $1 $2; the beginning and the end of its log:"
    { head -n 2 "$DIR/$1/log"; echo ...; tail -n 13 "$DIR/$1/log"; } | cut -c1-300 | sed 's/^/    /' >&2
}

# Waits until something accepts on member $1's client port. 1: it ended or time is up.
await_listening() {
    local address member=$1 until_s=$2
    address=$(<"$DIR/$member/client")
    until (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; do
        checkpoint
        is_alive "$member" || { member_failed "$member" "ended at once"; return 1; }
        ((SECONDS < until_s)) || { member_failed "$member" "does not listen on $address"; return 1; }
        sleep 0.03 || true
    done
}

# Waits until member $1 answers and knows a leader.
await_answer() {
    local leader member=$1 until_s=$2
    await_listening "$member" "$until_s" || return 1
    while :; do
        checkpoint
        read -r _ leader _ <<<"$(member_view "$member" || echo 0 0 0)"
        [ "$leader" = 0 ] || return 0
        is_alive "$member" || { member_failed "$member" "ended"; return 1; }
        ((SECONDS < until_s)) || { member_failed "$member" "sees no leader"; return 1; }
        sleep 0.05 || true
    done
}

await_healthy() {
    local member until_s=$((SECONDS + START_LIMIT_S))
    for ((member = 1; member <= SIZE; member++)); do await_answer "$member" "$until_s" || return 1; done
}
