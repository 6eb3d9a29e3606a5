# shellcheck shell=bash
# credentials.sh: certificates for a cluster with --tls, users for one with --auth, and how we ourselves get in.
# Sourced by cluster.sh; run on its own it does nothing.
# shellcheck disable=SC2154,SC2034 # DIR, SIZE, CLAIMS ... are cluster.sh's variables

has_tls() { [ -s "$DIR/tls/ca.pem" ]; }
has_auth() { [ -e "$DIR/auth" ]; }

# Prints the address of member $1 for clients as a URL.
client_url() { if has_tls; then echo "https://$(<"$DIR/$1/client")"; else echo "http://$(<"$DIR/$1/client")"; fi; }

# make_certificate NAME EXTENSIONS: NAME.pem and NAME-key.pem in $DIR/tls, signed by its authority.
make_certificate() {
    local folder=$DIR/tls name=$1
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
        -keyout "$folder/$name-key.pem" -out "$folder/$name.csr"
    printf '%s\n' "$2" >"$folder/$name.ext"
    openssl x509 -req -in "$folder/$name.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca-key.pem" \
        -set_serial "0x$(openssl rand -hex 8)" -days 30 -extfile "$folder/$name.ext" -out "$folder/$name.pem"
    rm -f "$folder/$name.csr" "$folder/$name.ext"
}

# Each member's certificate names its own address only. A member's gateway calls the member itself as a client does.
make_certificates() {
    local member address
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj "/CN=etcdlock test" \
        -addext 'keyUsage=critical,keyCertSign,cRLSign' -keyout "$DIR/tls/ca-key.pem" -out "$DIR/tls/ca.pem"
    make_certificate client $'keyUsage=digitalSignature\nextendedKeyUsage=clientAuth'
    for ((member = 1; member <= SIZE; member++)); do
        address=$(<"$DIR/$member/client")
        make_certificate "member$member" \
            $'keyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n'"subjectAltName=IP:${address%:*}"
    done
}

prepare_tls() {
    command -v openssl >/dev/null || die "--tls needs the program openssl"
    mkdir -m 700 "$DIR/tls"
    make_certificates >"$DIR/tls/log" 2>&1 || die "openssl failed: $(tail -n 3 "$DIR/tls/log")"
}

# Prints the flags that give member $1 its certificate.
tls_flags() {
    has_tls || return 0
    printf '%s\n' "--cert-file=$DIR/tls/member$1.pem" "--key-file=$DIR/tls/member$1-key.pem" \
        "--trusted-ca-file=$DIR/tls/ca.pem" --client-cert-auth
}

# What etcdctl needs to get in, as variables of its environment.
export_etcdctl_credentials() {
    if has_tls; then
        export ETCDCTL_CACERT=$DIR/tls/ca.pem ETCDCTL_CERT=$DIR/tls/client.pem ETCDCTL_KEY=$DIR/tls/client-key.pem
    fi
    if has_auth; then export ETCDCTL_USER=root:rootpw; fi
}

export_credentials() {
    export_etcdctl_credentials
    if has_tls; then
        export ETCDLOCK_TEST_CA=$DIR/tls/ca.pem ETCDLOCK_TEST_CERT=$DIR/tls/client.pem
        export ETCDLOCK_TEST_KEY=$DIR/tls/client-key.pem
    fi
    if has_auth; then export ETCDLOCK_TEST_USER=locker ETCDLOCK_TEST_PASSWORD=lockerpw; fi
}

as_operator() {
    etcdctl --endpoints="$(client_url 1)" --command-timeout=10s "$@" >/dev/null || die "etcdctl $* failed"
}

# root may do all; locker may read and write the keys that begin with t/.
enable_auth() {
    local member until_s=$((SECONDS + START_LIMIT_S))
    as_operator role add root
    as_operator role add locker
    as_operator role grant-permission locker readwrite --prefix=true t/
    as_operator user add root:rootpw
    as_operator user grant-role root root
    as_operator user add locker:lockerpw
    as_operator user grant-role locker locker
    as_operator auth enable
    : >"$DIR/auth"
    # A follower may learn of it later, and until then calls a login an error.
    for ((member = 1; member <= SIZE; member++)); do
        until etcdctl --endpoints="$(client_url "$member")" --command-timeout=10s get t/ >/dev/null; do
            checkpoint
            ((SECONDS < until_s)) || die "member $member does not let root in"
            sleep 0.05 || true
        done
    done
}
