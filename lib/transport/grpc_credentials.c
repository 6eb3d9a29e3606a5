#include "transport/grpc_credentials.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>

#include "core/alloc.h"
#include "core/file.h"

/* ---- is it whole? ---- */

/* In one block of PEM after the other; what is cut off in the middle of one is not. */
static bool are_certificates(const char *pem)
{
    int n = 0;
    BIO *from = BIO_new_mem_buf(pem, -1);
    if (!from) return false;
    for (X509 *certificate; (certificate = PEM_read_bio_X509(from, NULL, NULL, NULL)); n++)
        X509_free(certificate);
    bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    BIO_free(from);
    return n > 0 && at_end;
}

/* While somebody replaces the two files one after the other, they do not fit. */
static bool is_pair(const char *certificate_pem, const char *key_pem)
{
    /* The empty passphrase, which is gRPC's too: without one OpenSSL would ask for it at the terminal. */
    static char passphrase[] = "";
    BIO *from = BIO_new_mem_buf(certificate_pem, -1);
    X509 *certificate = from ? PEM_read_bio_X509(from, NULL, NULL, NULL) : NULL;
    BIO_free(from);
    from = BIO_new_mem_buf(key_pem, -1);
    EVP_PKEY *key = from ? PEM_read_bio_PrivateKey(from, NULL, NULL, passphrase) : NULL;
    BIO_free(from);
    bool fits = certificate && key && X509_check_private_key(certificate, key) == 1;
    EVP_PKEY_free(key);
    X509_free(certificate);
    return fits;
}

static bool are_usable(char *const pems[EL_GRPC_FILES])
{
    /* The queue of errors is the thread's, and the thread may be the program's own. */
    ERR_set_mark();
    bool usable = !pems[EL_GRPC_CA] || are_certificates(pems[EL_GRPC_CA]);
    if (usable && pems[EL_GRPC_CERT]) {
        usable = are_certificates(pems[EL_GRPC_CERT]) && is_pair(pems[EL_GRPC_CERT], pems[EL_GRPC_KEY]);
    }
    ERR_pop_to_mark();
    return usable;
}

/* ---- files ---- */

/* False for what is no plain file, too: a pipe has given all that it had when the client was opened. */
static bool look(const char *path, el_grpc_stamp *stamp)
{
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;
    memset(stamp, 0, sizeof *stamp);
    stamp->device = status.st_dev;
    stamp->inode = status.st_ino;
    stamp->size = status.st_size;
    stamp->modified_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    stamp->changed_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    return true;
}

static bool look_at_all(const el_grpc_credentials *credentials, el_grpc_stamp stamps[EL_GRPC_FILES])
{
    memset(stamps, 0, EL_GRPC_FILES * sizeof *stamps);
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        const char *path = credentials->files[i].path;
        if (path && !look(path, &stamps[i])) return false;
    }
    return true;
}

static bool is_changed(const el_grpc_credentials *credentials, const el_grpc_stamp stamps[EL_GRPC_FILES])
{
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        if (memcmp(&credentials->files[i].stamp, &stamps[i], sizeof *stamps) != 0) return true;
    }
    return false;
}

static void wipe(char *pem)
{
    if (pem) explicit_bzero(pem, strlen(pem));
    el_free(pem);
}

static bool read_all(const el_grpc_credentials *credentials, char *pems[EL_GRPC_FILES])
{
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        const char *path = credentials->files[i].path;
        size_t size;
        if (path && el_file_read(path, &pems[i], &size)) return false;
    }
    return true;
}

/* ---- credentials ---- */

static grpc_channel_credentials *make(const char *ca, const char *cert, const char *key)
{
    grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = cert};
    return grpc_ssl_credentials_create(ca, cert ? &pair : NULL, NULL, NULL);
}

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Takes the contents over and leaves the old ones in their place. */
static void adopt(el_grpc_credentials *credentials, char *pems[EL_GRPC_FILES],
                  const el_grpc_stamp stamps[EL_GRPC_FILES])
{
    bool same = true;
    for (int i = 0; i < EL_GRPC_FILES; i++)
        same = same && is_same(credentials->files[i].pem, pems[i]);
    grpc_channel_credentials *fresh =
        same ? NULL : make(pems[EL_GRPC_CA], pems[EL_GRPC_CERT], pems[EL_GRPC_KEY]);
    if (!same && !fresh) return;
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        char *old = credentials->files[i].pem;
        credentials->files[i].stamp = stamps[i];
        credentials->files[i].pem = pems[i];
        pems[i] = old;
    }
    if (same) return;
    grpc_channel_credentials_release(credentials->current);
    credentials->current = fresh;
    credentials->generation++;
}

void el_grpc_credentials_refresh(el_grpc_credentials *credentials)
{
    el_grpc_stamp before[EL_GRPC_FILES], after[EL_GRPC_FILES];
    char *pems[EL_GRPC_FILES] = {NULL};
    if (!credentials->follows_files) return;
    if (!look_at_all(credentials, before) || !is_changed(credentials, before)) return;
    bool whole = read_all(credentials, pems) && are_usable(pems);
    if (whole && look_at_all(credentials, after) && memcmp(before, after, sizeof before) == 0)
        adopt(credentials, pems, before);
    for (int i = 0; i < EL_GRPC_FILES; i++)
        wipe(pems[i]);
}

static int take(struct el_grpc_pem *file, const char *path, const char *pem, bool *follows_files)
{
    if (!pem) return 0;
    file->pem = el_strdup(pem);
    if (!file->pem) return ENOMEM;
    if (!path) return 0;
    *follows_files = true;
    file->path = el_strdup(path);
    return file->path ? 0 : ENOMEM;
}

int el_grpc_credentials_init(el_grpc_credentials *credentials, const el_grpc_config *config)
{
    struct el_grpc_pem *files = credentials->files;
    bool *follows = &credentials->follows_files;
    *credentials = (el_grpc_credentials){.tls = config->tls};
    if (!config->tls) {
        credentials->current = grpc_insecure_credentials_create();
        return credentials->current ? 0 : EINVAL;
    }
    int error = take(&files[EL_GRPC_CA], config->ca_file, config->ca_pem, follows);
    if (!error) error = take(&files[EL_GRPC_CERT], config->cert_file, config->cert_pem, follows);
    if (!error) error = take(&files[EL_GRPC_KEY], config->key_file, config->key_pem, follows);
    if (error) return error;
    credentials->current = make(config->ca_pem, config->cert_pem, config->key_pem);
    return credentials->current ? 0 : EINVAL;
}

void el_grpc_credentials_clear(el_grpc_credentials *credentials)
{
    for (int i = 0; i < EL_GRPC_FILES; i++) {
        wipe(credentials->files[i].pem);
        el_free(credentials->files[i].path);
    }
    if (credentials->current) grpc_channel_credentials_release(credentials->current);
}
