# shellcheck shell=bash
# addresses.sh: ports and networks that no other cluster uses. They are claimed, so that the address of a dead
# member stays its own until its cluster stops.
# Sourced by cluster.sh; run on its own it does nothing.
# shellcheck disable=SC2154,SC2034 # DIR, SIZE, CLAIMS ... are cluster.sh's variables

lock_claims() {
    local tries
    for ((tries = 0; tries < 1000; tries++)); do
        mkdir -m 700 "$CLAIMS" 2>/dev/null || true
        [ ! -e "$CLAIMS" ] || [ -O "$CLAIMS" ] || die "$CLAIMS belongs to somebody else"
        { exec 9<"$CLAIMS"; } 2>/dev/null || continue
        flock -w 30 9 || die "another start holds the lock of $CLAIMS for more than 30 s"
        # The folder may have been removed, with its last claim, while we waited.
        [ "$CLAIMS" -ef /dev/fd/9 ] && return 0
    done
    die "cannot create $CLAIMS"
}

unlock_claims() {
    rmdir "$CLAIMS" 2>/dev/null || true
    exec 9<&-
}

drop_stale_claims() {
    local claim
    for claim in "$CLAIMS"/*; do
        [ -e "$claim" ] || continue
        [ -e "$(<"$claim")/$MARK" ] || rm -f "$claim"
    done
}

release_claims() {
    local claim
    [ -d "$CLAIMS" ] || return 0
    lock_claims
    for claim in "$CLAIMS"/*; do
        [ -e "$claim" ] && [ "$(<"$claim")" = "$DIR" ] && rm -f "$claim"
    done
    unlock_claims
}

# Prints $1 free ports, below the range from which the kernel serves outgoing connections.
pick_ports() {
    local local_address port wanted=$1 busy=()
    while read -r _ local_address _; do
        [[ $local_address == *:* ]] && busy[16#${local_address##*:}]=1
    done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
    while ((wanted > 0)); do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        if [ -n "${busy[port]:-}" ] || [ -e "$CLAIMS/$port" ]; then continue; fi
        busy[port]=1 wanted=$((wanted - 1))
        echo "$DIR" >"$CLAIMS/$port"
        echo "$port"
    done
}

# Prints the number of a free /24 of 198.18.0.0/15, the range set aside for testing networks (RFC 2544).
pick_network() {
    local taken number
    taken=$(ip -4 route show table all)
    while :; do
        number=$((RANDOM % 512))
        [[ $taken == *"198.$((18 + number / 256)).$((number % 256))."* ]] && continue
        [ -e "$CLAIMS/net$number" ] || break
    done
    echo "$DIR" >"$CLAIMS/net$number"
    echo "$number"
}

choose_addresses() {
    local member number prefix host=127.0.0.1 ports=()
    lock_claims
    drop_stale_claims
    if [ "$NETNS" = 1 ]; then
        number=$(pick_network) || { checkpoint; die "found no free network"; }
        echo "$number" >"$DIR/netns"
        prefix=198.$((18 + number / 256)).$((number % 256))
    else
        mapfile -t ports < <(pick_ports $((2 * SIZE)))
    fi
    unlock_claims
    checkpoint
    for ((member = 1; member <= SIZE; member++)); do
        if [ "$NETNS" = 1 ]; then
            echo "$prefix.$((4 * member + 2)):2379" >"$DIR/$member/client"
            echo "192.168.255.$member:2380" >"$DIR/$member/peer"
        else
            [ "$TLS" = 0 ] || host=127.0.0.$member
            echo "$host:${ports[2 * member - 2]}" >"$DIR/$member/client"
            echo "127.0.0.1:${ports[2 * member - 1]}" >"$DIR/$member/peer"
        fi
    done
}
