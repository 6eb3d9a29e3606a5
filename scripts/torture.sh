#!/usr/bin/env bash
# torture.sh: clients that lock for minutes while everything around them breaks, and a judgement on what they did:
# `make torture` calls it.
#
#   torture.sh [--minutes N] [--seed N] [--json] [--keep FOLDER]
#
#   --minutes N     how long faults go on (default 2; a fraction such as 0.5 is fine); the end takes half a minute more
#   --seed N        repeats the faults of that seed (default: a new one; it is printed)
#   --json          prints the report as one JSON object; the progress goes to standard error in any case
#   --keep FOLDER   leaves the history, the logs and the resources there, also when all is well
#
# Three members and 8 client processes, half of them behind proxies of their own. Members are killed, stopped, isolated
# (where network namespaces may be made), the history is compacted, the leader moved, clients are killed, stopped and
# cut off, and an operator ends leases and deletes keys. Exit status 1 on any breach: then the folder is kept.
#
# BUILD=build/release   where the programs were built
# ETCD=FOLDER           the etcd and etcdctl to use, as for cluster.sh
#
# What the nemesis calls, inside a cluster:
#   torture.sh compact | move-leader N | first PREFIX | delete KEY REVISION | revoke LEASE
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SELF=$ROOT/scripts/torture.sh
CLUSTER=$ROOT/scripts/cluster.sh
BUILD=${BUILD:-build/release}
[[ $BUILD == /* ]] || BUILD=$ROOT/$BUILD
MINUTES=2 SEED='' KEEP='' JSON=()

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "$SELF"; }
refuse() { printf 'torture: %s; --help says more\n' "$*" >&2; exit 2; }

# ---- what an operator does ----------------------------------------------------------------------------------------------

field() { sed -n "s/^\"$1\" : \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p"; }

# All but the last few revisions: a watch that lags has to notice.
act_compact() {
    local revision
    revision=$(timeout 5 etcdctl get torture -w fields | field Revision)
    timeout 5 etcdctl compact "$revision"
}

act_move-leader() {
    local members=() ids=() leader number=$1 endpoint
    IFS=, read -ra members <<<"$ETCDCTL_ENDPOINTS"
    leader=$(timeout 16 "$CLUSTER" leader)
    mapfile -t ids < <(for endpoint in "${members[@]}"; do
        ETCDCTL_ENDPOINTS=$endpoint timeout 2 etcdctl endpoint status -w fields 2>/dev/null | field MemberID || echo
    done)
    ((number + 1 != leader)) || number=$(((number + 1) % ${#members[@]}))
    ETCDCTL_ENDPOINTS=${members[leader - 1]} timeout 5 etcdctl move-leader "$(printf '%x' "${ids[number]}")"
}

# The key of the first in a queue, its revision and its lease.
act_first() {
    local answer
    answer=$(timeout 2 etcdctl get "$1" --prefix --sort-by=CREATE --limit=1 -w fields)
    echo "$(field Key <<<"$answer") $(field CreateRevision <<<"$answer") $(field Lease <<<"$answer")"
}

# Only the key that was looked at: by now its name may be that of another hold.
act_delete() { printf 'create("%s") = "%s"\n\ndel %s\n\n\n' "$1" "$2" "$1" | timeout 5 etcdctl txn; }

act_revoke() { timeout 5 etcdctl lease revoke "$1"; }

# ---- the run ------------------------------------------------------------------------------------------------------------

parse() {
    while [ $# -gt 0 ]; do
        case $1 in
            --minutes) MINUTES=${2:?--minutes needs a number}; shift 2 ;;
            --seed) SEED=${2:?--seed needs a number}; shift 2 ;;
            --json) JSON=(--json); shift ;;
            --keep) KEEP=${2:?--keep needs a folder}; shift 2 ;;
            -h | --help) usage; exit 0 ;;
            *) refuse "unknown option $1" ;;
        esac
    done
    [[ $MINUTES =~ ^[0-9]+(\.[0-9]+)?$ ]] || refuse "--minutes takes a number"
    [ -n "$SEED" ] || SEED=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    [[ $SEED =~ ^[0-9]{1,15}$ ]] || refuse "--seed takes a number of up to 15 digits"
    [ -x "$BUILD/test/torture/torture" ] || refuse "$BUILD/test/torture/torture is not built: make torture"
}

main() {
    local netns=() folder status=0 seconds
    if declare -F "act_${1:-}" >/dev/null; then
        "act_$1" "${@:2}"
        return
    fi
    parse "$@"
    seconds=$(awk -v m="$MINUTES" 'BEGIN { printf "%d", m * 60 + 0.5 }')
    if "$CLUSTER" can-netns 2>/dev/null; then netns=(--netns); fi
    if [ -n "$KEEP" ]; then mkdir -p "$KEEP"; folder=$(mktemp -d "$KEEP/torture-$SEED-XXXX"); else
        folder=$(mktemp -d "${TMPDIR:-/tmp}/etcdlock-torture-XXXXXX")
    fi
    echo "torture: seed $SEED, $seconds s${netns:+, with network namespaces}" >&2
    "$CLUSTER" run -n 3 --tmpfs "${netns[@]}" -- "$BUILD/test/torture/torture" --seconds "$seconds" --seed "$SEED" \
        --folder "$folder" --client "$BUILD/test/torture/torture_client" --script "$SELF" --cluster "$CLUSTER" \
        "${netns[@]}" "${JSON[@]}" || status=$?
    if [ "$status" = 0 ] && [ -z "$KEEP" ]; then
        rm -rf "$folder"
        echo "torture: every rule was kept; seed $SEED" >&2
    elif [ "$status" = 0 ]; then
        echo "torture: every rule was kept; seed $SEED; $folder" >&2
    else
        echo "torture: FAILED with status $status; seed $SEED repeats the faults; the history is in $folder" >&2
    fi
    return "$status"
}

main "$@"
