#!/usr/bin/env bash
# setup.sh: finds what this machine lacks for building libetcdlock, its demo and its tests, and installs it.
#
#   setup.sh [--proof] [--lint] [--fuzz] [--bench]
#       --proof: what `make test` wants beyond the build, what the examples use; --lint: the tools of `make lint`;
#       --fuzz: those of `make fuzz`; --bench: the peers of `make bench`
#
# Installs with apt-get, dnf or apk, through sudo when not root. It never asks where there is no terminal. What it
# cannot install it lists, and exits with 1. Where nothing is missing it says nothing and takes milliseconds.
# CONFIG=valgrind asks for valgrind too. ETCD=FOLDER names a folder with etcd and etcdctl; then none is installed.
set -euo pipefail

usage() { sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; }
say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin # where ip may be for people who are not root
INCLUDE_FOLDERS=(/usr/include /usr/include/*-linux-* /usr/local/include)
LIBRARY_FOLDERS=(/usr/lib/*-linux-* /usr/lib64 /usr/lib /usr/local/lib /usr/local/lib64)
ITEMS=() PURPOSES=() APT=() DNF=() APK=()
HUSHED=0 NEW_SERVICES=()

# ---- what is missing --------------------------------------------------------------------------------------------

# want ITEM PURPOSE APT_PACKAGES DNF_PACKAGES APK_PACKAGES; "-" where the system has no package
want() {
    ITEMS+=("$1") PURPOSES+=("$2") APT+=("$3") DNF+=("$4") APK+=("$5")
}

# want_program PROGRAM PURPOSE PACKAGES...
want_program() {
    have "$1" || want "$@"
}

# want_library HEADER LIBRARY PKG_CONFIG_NAME PURPOSE PACKAGES...: pkg-config is asked only where a plain look fails
want_library() {
    local header=$1 library=$2 module=$3 folder found=
    shift 3
    for folder in "${INCLUDE_FOLDERS[@]}"; do [ ! -e "$folder/$header" ] || found=header; done
    if [ -n "$found" ]; then
        for folder in "${LIBRARY_FOLDERS[@]}"; do
            if [ -e "$folder/lib$library.so" ] || [ -e "$folder/lib$library.a" ]; then return; fi
        done
    fi
    if have pkg-config && pkg-config --exists "$module" 2>/dev/null; then return; fi
    want "lib$library" "$@"
}

want_etcd() {
    local program
    if [ -n "${ETCD:-}" ]; then
        for program in etcd etcdctl; do
            [ -x "$ETCD/$program" ] || want "$program" "ETCD=$ETCD names a folder without it" - - -
        done
        return
    fi
    want_program etcd "the server of the demo and the live tests" etcd-server etcd -
    want_program etcdctl "its command-line client" etcd-client etcd -
}

find_missing() {
    if ! have gcc && ! have cc; then want gcc "the compiler" "gcc libc6-dev" gcc "gcc musl-dev"; fi
    have g++ || want g++ "the check that the headers suit C++" g++ gcc-c++ g++
    [ -e /usr/include/stdlib.h ] || ! have gcc || want libc "the C library's headers" libc6-dev glibc-devel musl-dev
    want_program make "the build" make make make
    want_program pkg-config "finding libraries" pkg-config pkgconf-pkg-config pkgconf
    want_program protoc-c "generating the encoder of etcd's messages" \
        "protobuf-c-compiler protobuf-compiler" "protobuf-c-compiler protobuf-compiler" "protobuf-c-compiler protoc"
    want_library grpc/grpc.h grpc grpc "talking to etcd (gRPC C core)" libgrpc-dev grpc-devel grpc-dev
    want_library protobuf-c/protobuf-c.h protobuf-c libprotobuf-c "encoding etcd's messages" \
        libprotobuf-c-dev protobuf-c-devel protobuf-c-dev
    want_library cjson/cJSON.h cjson libcjson "JSON options and values" libcjson-dev cjson-devel cjson-dev
    want_library curl/curl.h curl libcurl "talking to etcd's JSON gateway" \
        libcurl4-openssl-dev libcurl-devel curl-dev
    want_library openssl/ssl.h crypto openssl "TLS and random numbers" libssl-dev openssl-devel openssl-dev
    want_library check.h check check "the tests" check "check check-devel" check-dev
    want_library subunit/child.h subunit libsubunit "the tests, beside check" libsubunit-dev subunit-devel subunit-dev
    want_program flock "starting clusters side by side" util-linux util-linux "util-linux flock"
    want_program nsenter "isolating a member of a test cluster" util-linux util-linux-core util-linux
    want_program ip "isolating a member of a test cluster" iproute2 iproute iproute2
    want_program curl "counting the watches that the torture test leaves" curl curl curl
    want_etcd
    [ "${CONFIG:-}" != valgrind ] || want_program valgrind "CONFIG=valgrind" valgrind valgrind valgrind
}

# On Debian the programs of the server are in a folder of their own, which is in nobody's PATH.
want_postgres() {
    if have initdb && have postgres; then return; fi
    [ -z "$(find /usr/lib/postgresql/*/bin /usr/libexec/postgresql*/ -maxdepth 1 -name initdb 2>/dev/null)" ] || return 0
    want postgres "the jobs example on a real server" postgresql postgresql-server postgresql
}

find_missing_proof() {
    want_library sqlite3.h sqlite3 sqlite3 "the jobs example" libsqlite3-dev sqlite-devel sqlite-dev
    want_program sqlite3 "the proof of the jobs example" sqlite3 sqlite sqlite
    want_library postgresql/libpq-fe.h pq libpq "the jobs example on PostgreSQL" libpq-dev libpq-devel libpq-dev
    want_program psql "the proof of the jobs example" postgresql-client postgresql postgresql-client
    want_program setpriv "running PostgreSQL as somebody who is not root" util-linux util-linux "util-linux setpriv"
    want_postgres
    want_library uv.h uv libuv "the libuv example" libuv1-dev libuv-devel libuv-dev
}

find_missing_lint() {
    want_program clang-format "make lint" clang-format clang-tools-extra clang-extra-tools
    want_program clang-tidy "make lint" clang-tidy clang-tools-extra clang-extra-tools
    want_program cppcheck "make lint" cppcheck cppcheck cppcheck
    want_program shellcheck "make lint" shellcheck ShellCheck shellcheck
}

# The runtime of libFuzzer is a package of its own on some systems; only clang knows where it looks for it.
find_missing_fuzz() {
    want_program clang "make fuzz" clang clang clang
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - >/dev/null 2>&1 ||
        want libFuzzer "make fuzz" libclang-rt-dev compiler-rt compiler-rt
}

# What ours is measured against; without them `make bench` leaves them out.
find_missing_bench() {
    want_program go "the peer in Go" golang-go golang go
    [ -d /usr/share/gocode/src/go.etcd.io/etcd/clientv3 ] ||
        want etcd-go-client "the peer in Go: etcd's own client, as source" golang-etcd-server-dev - -
    want_program redis-server "the peer Redlock" redis-server redis redis
    want_library hiredis/hiredis.h hiredis hiredis "the peer Redlock" libhiredis-dev hiredis-devel hiredis-dev
    [ -e /usr/share/java/zookeeper.jar ] || want zookeeper "the peer ZooKeeper" zookeeper - -
    want_library zookeeper/zookeeper.h zookeeper_mt zookeeper_mt "the peer ZooKeeper" libzookeeper-mt-dev - -
}

# ---- installing it ------------------------------------------------------------------------------------------------

find_manager() {
    if have apt-get; then MANAGER=apt PACKAGES=("${APT[@]}")
    elif have dnf; then MANAGER=dnf PACKAGES=("${DNF[@]}")
    elif have apk; then MANAGER=apk PACKAGES=("${APK[@]}")
    else MANAGER='' PACKAGES=("${APT[@]}")
    fi
    # Package names hold no blanks; several in one entry are separated by them.
    read -ra WANTED <<<"$(printf '%s\n' "${PACKAGES[@]}" | tr ' ' '\n' | grep -vx -e - | sort -u | tr '\n' ' ')" || true
}

# Sets AS_ROOT. With a terminal sudo may ask for its password there; without one it must not.
find_root() {
    AS_ROOT=()
    [ "$(id -u)" != 0 ] || return 0
    have sudo || return 1
    if [ -t 0 ] && [ -t 2 ]; then AS_ROOT=(sudo); else AS_ROOT=(sudo -n); fi
    "${AS_ROOT[@]}" true 2>/dev/null
}

as_root() { "${AS_ROOT[@]}" "$@" </dev/null; }

# Debian's servers start services on their usual ports as they are installed. policy-rc.d is Debian's way to say no.
hush_services() {
    NEW_SERVICES=()
    [[ " ${WANTED[*]} " != *' etcd-server '* ]] || NEW_SERVICES+=(etcd.service)
    [[ " ${WANTED[*]} " != *' postgresql '* ]] || NEW_SERVICES+=(postgresql.service)
    [[ " ${WANTED[*]} " != *' redis-server '* ]] || NEW_SERVICES+=(redis-server.service)
    [ ${#NEW_SERVICES[@]} -gt 0 ] || return 0
    [ ! -e /usr/sbin/policy-rc.d ] || return 0
    as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d' || return 0
    HUSHED=1
    trap unhush_services EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

unhush_services() {
    [ "$HUSHED" = 0 ] || as_root rm -f /usr/sbin/policy-rc.d
    HUSHED=0
}

# Only for services that came with what we have just installed; one that was here before is somebody's.
retire_services() {
    [ ${#NEW_SERVICES[@]} -gt 0 ] || return 0
    if [ -d /run/systemd/system ]; then as_root systemctl disable --now "${NEW_SERVICES[@]}" >/dev/null 2>&1 || true; fi
    say "installed as programs; kept from running as system services: ${NEW_SERVICES[*]}"
}

install_packages() {
    case $MANAGER in
        apt)
            hush_services
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 update ||
                say "apt-get update failed; trying with the package lists at hand"
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
                -o Dpkg::Use-Pty=0 --no-install-recommends install "${WANTED[@]}" || say "apt-get failed"
            unhush_services
            ;;
        dnf)
            as_root dnf -y -q --setopt=install_weak_deps=False --setopt=strict=0 install "${WANTED[@]}" || say "dnf failed"
            ;;
        apk)
            # apk installs all or nothing; one name it does not know must not keep the others out.
            as_root apk add --quiet --update-cache "${WANTED[@]}" || install_one_by_one apk add --quiet
            ;;
    esac
}

install_one_by_one() {
    local package
    for package in "${WANTED[@]}"; do as_root "$@" "$package" || say "no package $package"; done
}

announce() {
    local i
    say "missing on this machine:"
    for i in "${!ITEMS[@]}"; do printf '  %-14s %s\n' "${ITEMS[i]}" "${PURPOSES[i]}"; done
}

list_the_rest() {
    local i etcd=0
    say "please install these, then run the command again:" >&2
    for i in "${!ITEMS[@]}"; do
        [[ ${ITEMS[i]} != etcd* ]] || etcd=1
        printf '  %-14s for: %s; package: %s\n' "${ITEMS[i]}" "${PURPOSES[i]}" \
            "$([ "${PACKAGES[i]}" = - ] && echo 'none here' || echo "${PACKAGES[i]}")" >&2
    done
    [ -n "$MANAGER" ] || say "the package names are Debian's: this machine has none of apt-get, dnf and apk" >&2
    [ "$etcd" = 0 ] || say "etcd 3.4 or newer also comes as an archive from the etcd project's releases: unpack it and" \
        "set ETCD to the folder of etcd and etcdctl" >&2
    exit 1
}

look() {
    ITEMS=() PURPOSES=() APT=() DNF=() APK=()
    hash -r
    find_missing
    [ "$PROOF" = 0 ] || find_missing_proof
    [ "$LINT" = 0 ] || find_missing_lint
    [ "$FUZZ" = 0 ] || find_missing_fuzz
    [ "$BENCH" = 0 ] || find_missing_bench
    [ ${#ITEMS[@]} -gt 0 ]
}

main() {
    local argument
    PROOF=0 LINT=0 FUZZ=0 BENCH=0
    for argument in "$@"; do
        case $argument in
            --proof) PROOF=1 ;;
            --lint) LINT=1 ;;
            --fuzz) FUZZ=1 ;;
            --bench) BENCH=1 ;;
            -h | --help) usage; exit 0 ;;
            *) say "unknown argument $argument; --help explains" >&2; exit 1 ;;
        esac
    done
    look || exit 0
    announce
    find_manager
    if [ -z "$MANAGER" ] || [ ${#WANTED[@]} = 0 ]; then list_the_rest; fi
    if ! find_root; then
        say "installing needs root: neither root nor sudo without a password is at hand" >&2
        list_the_rest
    fi
    say "installing with $MANAGER: ${WANTED[*]}"
    install_packages
    retire_services
    if look; then find_manager; list_the_rest; fi
    say "all there"
}

main "$@"
