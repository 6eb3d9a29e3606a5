#!/usr/bin/env bash
# shellcheck disable=SC2317  # the functions are called by check
# Installs into an empty folder, builds a C and a C++ program against that, compares the exported symbols with the
# public headers, and uninstalls. Prints one line per check; exit status 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
prefix=$dir/usr
failed=0

check() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        echo "ok: $name"
    else
        echo "FAILED: $name"
        sed 's/^/    /' "$dir/out"
        failed=1
    fi
}

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
quiet_make() { make --no-print-directory PREFIX="$prefix" "$@"; }

write_program() {
    cat >"$dir/program.c" <<'C'
#include <etcdlock.h>
#include <stdio.h>
int main(void)
{
    etcdlock_client_options options = ETCDLOCK_CLIENT_OPTIONS_INIT;
    etcdlock_client *client;
    options.endpoints = "127.0.0.1:1";
    if (etcdlock_client_open(&client, &options)) return 1;
    puts(etcdlock_version());
    return etcdlock_client_close(client);
}
C
}

# The guard for the resource's side, which must come without etcd, gRPC and the first library.
write_fence_program() {
    cat >"$dir/fence.c" <<'C'
#include <errno.h>
#include <etcdlock/fence.h>
int main(int argc, char **argv)
{
    etcdlock_fence_options options = ETCDLOCK_FENCE_OPTIONS_INIT;
    etcdlock_fence *fence;
    if (argc != 2 || etcdlock_fence_open_file(&fence, argv[1], &options)) return 1;
    if (etcdlock_fence_check(fence, "r", 57) || etcdlock_fence_check(fence, "r", 41) != ESTALE) return 2;
    return etcdlock_fence_close(fence);
}
C
}

# All that C++ could dislike in the headers: the initialisers, each of them, and the drop-in form.
write_all_initialisers() {
    cat >"$dir/all.cc" <<'C'
#include <etcdlock.h>
#include <etcdlock/fence.h>
static etcdlock_mutex_t plain = ETCDLOCK_MUTEX_INITIALIZER("a");
static etcdlock_mutex_t recursive = ETCDLOCK_RECURSIVE_MUTEX_INITIALIZER("b");
int main()
{
    etcdlock_client_options client = ETCDLOCK_CLIENT_OPTIONS_INIT;
    etcdlock_session_options session = ETCDLOCK_SESSION_OPTIONS_INIT;
    etcdlock_mutex_options mutex = ETCDLOCK_MUTEX_OPTIONS_INIT;
    etcdlock_txn txn = ETCDLOCK_TXN_INIT;
    etcdlock_txn_result result = ETCDLOCK_TXN_RESULT_INIT;
    etcdlock_fence_options fence = ETCDLOCK_FENCE_OPTIONS_INIT;
    mutex.flags = ETCDLOCK_ROBUST | ETCDLOCK_HANDLE_OWNED;
    bool sizes = client.size == sizeof client && session.size == sizeof session && mutex.size == sizeof mutex &&
                 txn.size == sizeof txn && result.size == sizeof result && fence.size == sizeof fence;
    bool zero = !client.endpoints && !session.label && !mutex.on_lost && !txn.n_success && !result.revision && !fence.flags;
    return !sizes || !zero || etcdlock_mutex_destroy(&plain) || etcdlock_mutex_destroy(&recursive);
}
C
}

# compile COMPILER SOURCE PROGRAM [PACKAGES]
# shellcheck disable=SC2046,SC2086  # pkg-config prints several words, and takes several
compile() {
    local compiler
    read -ra compiler <<<"$1"
    "${compiler[@]}" -Wall -Wextra -Wpedantic -Werror "$2" -x none -o "$3" \
        $(pkg-config --cflags --libs ${4:-etcdlock}) "-Wl,-rpath,$prefix/lib"
}

# shellcheck disable=SC2046
compile_static() {
    gcc -Wall -Werror "$dir/program.c" -o "$dir/static" $(pkg-config --cflags etcdlock) "$prefix/lib/libetcdlock.a" \
        -lgrpc -lgpr -lprotobuf-c -lcjson -lcrypto -pthread
}

# shellcheck disable=SC2046
compile_fence_static() {
    gcc -Wall -Werror "$dir/fence.c" -o "$dir/fence-static" $(pkg-config --cflags etcdlock-fence) "$prefix/lib/libetcdlock-fence.a" -pthread
}

# exported LIBRARY
exported() { nm -D --defined-only "$prefix/lib/$1.so" | awk '$2 == "T" || $2 == "D" || $2 == "B" || $2 == "R" {sub(/@.*/, "", $3); print $3}' | sort; }

# declared HEADER...
declared() { cat "$@" | tr '\n' ' ' | grep -oE 'ETCDLOCK_API [^;(]*\(' | grep -oE 'etcdlock_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u; }

headers_of_locks() { find include/etcdlock -name '*.h' ! -name fence.h ! -name export.h; } # which has the marks
# shellcheck disable=SC2046
same_symbols() { diff <(declared $(headers_of_locks)) <(exported libetcdlock); }
same_fence_symbols() { diff <(declared include/etcdlock/fence.h) <(exported libetcdlock-fence); }
prints_version() { [ "$("$1")" = "$(pkg-config --modversion etcdlock)" ]; }
# has_soname LIBRARY
has_soname() { readelf -d "$prefix/lib/$1.so" | grep -q "SONAME.*$1\\.so\\.[0-9]*\\]"; }
needs_libc_only() { ! readelf -d "$prefix/lib/libetcdlock-fence.so" | grep NEEDED | grep -vE 'libc\.so|ld-linux'; }
is_empty() { [ -z "$(find "$prefix" ! -type d)" ] && [ ! -d "$prefix/include/etcdlock" ]; }

# As in a fresh checkout: nobody but the rule itself makes the folder of the examples.
links_an_example() {
    local folder=build/${CONFIG:-release}/examples
    rm -rf "$folder"
    quiet_make "$folder/hello" && [ -x "$folder/hello" ] && quiet_make all
}

write_program
write_fence_program
write_all_initialisers
check "an example is linked where nothing has been built" links_an_example
check "make install" quiet_make install
check "a C program links with the shared library" compile gcc "$dir/program.c" "$dir/shared"
check "it runs" prints_version "$dir/shared"
check "a C++ program compiles" compile "g++ -x c++" "$dir/program.c" "$dir/cplusplus"
check "it runs" prints_version "$dir/cplusplus"
for standard in 11 17 20; do
    check "C++$standard takes all initialisers" compile "g++ -std=c++$standard" "$dir/all.cc" "$dir/all" "etcdlock etcdlock-fence"
    check "they are right" "$dir/all"
done
check "a C program links with the static library" compile_static
check "it runs" prints_version "$dir/static"
check "the shared library has a SONAME" has_soname libetcdlock
check "it exports what the headers declare, and nothing else" same_symbols
check "a C program links with the guard alone" compile gcc "$dir/fence.c" "$dir/fence" etcdlock-fence
check "it runs" "$dir/fence" "$dir/store"
check "a C++ program compiles with the guard" compile "g++ -x c++" "$dir/fence.c" "$dir/fence-cplusplus" etcdlock-fence
check "it runs, on the same file" "$dir/fence-cplusplus" "$dir/store"
check "a C program links with the static guard" compile_fence_static
check "it runs, on the same file" "$dir/fence-static" "$dir/store"
check "the guard's library has a SONAME" has_soname libetcdlock-fence
check "it needs the C library and nothing else" needs_libc_only
check "it exports what its header declares, and nothing else" same_fence_symbols
check "make uninstall" quiet_make uninstall
check "nothing is left" is_empty
exit $failed
