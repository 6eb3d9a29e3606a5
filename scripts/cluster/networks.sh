# shellcheck shell=bash
# networks.sh: one network namespace per member, and one for the bridge that joins their peer ports. Clients come in
# over a second link that leads straight to the host, so cutting the first leaves it alone.
# Sourced by cluster.sh; run on its own it does nothing.
# shellcheck disable=SC2154,SC2034 # DIR, SIZE, CLAIMS ... are cluster.sh's variables

can_netns() {
    local probe=elprobe$$
    command -v ip >/dev/null && command -v nsenter >/dev/null || return 1
    ip netns add "$probe" 2>/dev/null || return 1
    local ok=1
    ip -n "$probe" link add ela type veth peer name elb 2>/dev/null && ip -n "$probe" link add elbr type bridge 2>/dev/null || ok=0
    ip netns del "$probe"
    [ "$ok" = 1 ]
}

require_netns() {
    can_netns && return 0
    checkpoint
    die "network namespaces cannot be made here: that needs iproute2, root (or CAP_SYS_ADMIN and" \
        "CAP_NET_ADMIN) and a kernel with veth and bridge; in a container, run it with --privileged"
}

netns_name() { printf 'el%03x%s' "$(<"$DIR/netns")" "$1"; }

join_member() {
    local member=$1 hub=$2 space host_link client
    space=$(netns_name "m$member") host_link=$(netns_name "c$member")
    client=$(<"$DIR/$member/client") client=${client%:*}
    ip netns add "$space"
    ip -n "$space" link set lo up
    ip -n "$hub" link add "p$member" type veth peer name peer0 netns "$space"
    ip -n "$hub" link set "p$member" master br0 up
    ip -n "$space" addr add "192.168.255.$member/24" dev peer0
    ip -n "$space" link set peer0 up
    ip link add "$host_link" type veth peer name client0 netns "$space"
    ip addr add "${client%.*}.$((4 * member + 1))/30" dev "$host_link"
    ip link set "$host_link" up
    ip -n "$space" addr add "$client/30" dev client0
    ip -n "$space" link set client0 up
}

make_networks() {
    local member hub
    hub=$(netns_name h)
    ip netns add "$hub"
    ip -n "$hub" link add br0 type bridge
    ip -n "$hub" link set br0 up
    for ((member = 1; member <= SIZE; member++)); do join_member "$member" "$hub"; done
}

remove_networks() {
    local member
    [ -s "$DIR/netns" ] || return 0
    for member in 1 2 3; do
        ip link del "$(netns_name "c$member")" 2>/dev/null || true
        ip netns del "$(netns_name "m$member")" 2>/dev/null || true
    done
    ip netns del "$(netns_name h)" 2>/dev/null || true
}
