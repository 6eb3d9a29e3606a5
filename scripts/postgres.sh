#!/usr/bin/env bash
# postgres.sh: a PostgreSQL server for one command, for the jobs example and its proof.
#
#   postgres.sh run -- COMMAND...
#
# The server has a private folder and listens on a socket in it and nowhere else. PGHOST, PGUSER and PGDATABASE name
# it to the command, and to psql. It is stopped and its folder removed however the command ends; the exit status is the
# command's. PostgreSQL refuses to run as root: there it runs as the user postgres, or nobody.
# PGBIN=FOLDER names the folder of initdb and postgres (default: the newest of /usr/lib/postgresql, else PATH).
set -euo pipefail

DIR='' SERVER='' CHILD='' STOPPED=0
START_LIMIT_S=30

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }
die() { printf 'postgres: %s\n' "$*" >&2; exit 1; }

find_programs() {
    local newest
    newest=$(find /usr/lib/postgresql/*/bin /usr/libexec/postgresql*/ -maxdepth 1 -name initdb 2>/dev/null | sort -V | tail -n 1) || true
    PGBIN=${PGBIN:-${newest%/*}}
    PATH=${PGBIN:+$PGBIN:}$PATH
    command -v initdb >/dev/null || die "there is no initdb: install the PostgreSQL server, or set PGBIN to its folder"
}

# Sets AS_USER: what makes a command run as somebody who is not root.
find_user() {
    local user=postgres
    AS_USER=()
    [ "$(id -u)" = 0 ] || return 0
    id -u "$user" >/dev/null 2>&1 || user=nobody
    AS_USER=(setpriv "--reuid=$user" "--regid=$(id -gn "$user")" --clear-groups)
    chown "$user" "$DIR"
}

start() {
    # What is in the folder is thrown away: nothing has to reach the disk.
    (cd "$DIR" && "${AS_USER[@]}" initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync) >"$DIR.log" 2>&1 ||
        { cat "$DIR.log" >&2; die "initdb failed"; }
    (cd "$DIR" && exec "${AS_USER[@]}" postgres -D data -k "$DIR" -c listen_addresses='' -c fsync=off) >>"$DIR.log" 2>&1 &
    SERVER=$!
    export PGHOST=$DIR PGUSER=postgres PGDATABASE=postgres
    unset PGPORT PGSERVICE PGPASSWORD
    local deadline=$((SECONDS + START_LIMIT_S))
    until pg_isready -q; do
        kill -0 "$SERVER" 2>/dev/null || { cat "$DIR.log" >&2; die "the server has ended"; }
        ((SECONDS < deadline)) || { cat "$DIR.log" >&2; die "the server is not ready after $START_LIMIT_S s"; }
        sleep 0.05
    done
}

stop() {
    local status=$?
    trap '' INT TERM HUP
    if [ -n "$SERVER" ]; then
        kill -INT "$SERVER" 2>/dev/null || true # ends the sessions that are left
        wait "$SERVER" 2>/dev/null || true
    fi
    [ -z "$DIR" ] || rm -rf "$DIR" "$DIR.log"
    exit "$status"
}

interrupt() {
    STOPPED=$1
    [ -z "$CHILD" ] || kill -TERM "$CHILD" 2>/dev/null || true
}

# In the background, so that a signal to us ends it too.
run_child() {
    local status=0
    "$@" <&0 &
    CHILD=$!
    while :; do
        wait "$CHILD" && status=0 || status=$?
        kill -0 "$CHILD" 2>/dev/null || break
    done
    [ "$STOPPED" = 0 ] || status=$STOPPED
    return "$status"
}

main() {
    case "${1:-} ${2:-}" in
        '-h '* | '--help '*) usage; exit 0 ;;
        'run --') shift 2 ;;
        *) usage >&2; exit 1 ;;
    esac
    [ $# -gt 0 ] || die "run -- needs a command"
    trap stop EXIT
    trap 'interrupt 130; exit 130' INT
    trap 'interrupt 143; exit 143' TERM
    trap 'interrupt 129; exit 129' HUP
    DIR=$(mktemp -d "${TMPDIR:-/tmp}/etcdlock-pg-XXXXXX")
    find_programs
    find_user
    start
    trap 'interrupt 130' INT
    trap 'interrupt 143' TERM
    trap 'interrupt 129' HUP
    run_child "$@"
}

main "$@"
