#include "support/authority.h"

#include <check.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>

enum { BEFORE_S = -60, DAY_S = 24 * 3600, PATH_ROOM = 512 };

static FILE *open_beside(const char *file, char beside[PATH_ROOM])
{
    snprintf(beside, PATH_ROOM, "%s.new", file);
    FILE *to = fopen(beside, "we");
    ck_assert_ptr_nonnull(to);
    return to;
}

static void put_in_place(FILE *to, const char *beside, const char *file)
{
    ck_assert_int_eq(fclose(to), 0);
    ck_assert_int_eq(rename(beside, file), 0);
}

static void write_certificate(const char *file, X509 *certificate)
{
    char beside[PATH_ROOM];
    FILE *to = open_beside(file, beside);
    ck_assert_int_eq(PEM_write_X509(to, certificate), 1);
    put_in_place(to, beside, file);
}

static void write_key(const char *file, EVP_PKEY *key)
{
    char beside[PATH_ROOM];
    FILE *to = open_beside(file, beside);
    ck_assert_int_eq(PEM_write_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL), 1);
    put_in_place(to, beside, file);
}

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    ck_assert_ptr_nonnull(extension);
    ck_assert_int_eq(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *begin(const char *name, EVP_PKEY *key, X509_NAME *issuer, long from_now_s)
{
    unsigned char serial[8];
    X509 *certificate = X509_new();
    ck_assert_int_eq(RAND_bytes(serial, sizeof serial), 1);
    serial[0] &= 0x7f;
    X509_set_version(certificate, X509_VERSION_3);
    BIGNUM *number = BN_bin2bn(serial, sizeof serial, NULL);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer ? issuer : X509_get_subject_name(certificate));
    X509_gmtime_adj(X509_getm_notBefore(certificate), from_now_s < 0 ? from_now_s + BEFORE_S : BEFORE_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate), from_now_s);
    X509_set_pubkey(certificate, key);
    return certificate;
}

void authority_make(authority *a, const char *name)
{
    a->key = EVP_EC_gen("P-256");
    ck_assert_ptr_nonnull(a->key);
    a->certificate = begin(name, a->key, NULL, DAY_S);
    extend(a->certificate, a->certificate, NID_basic_constraints, "critical,CA:TRUE");
    extend(a->certificate, a->certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    extend(a->certificate, a->certificate, NID_subject_key_identifier, "hash");
    ck_assert_int_gt(X509_sign(a->certificate, a->key, EVP_sha256()), 0);
}

void authority_load(authority *a, const char *cert_file, const char *key_file)
{
    FILE *from = fopen(cert_file, "re");
    ck_assert_ptr_nonnull(from);
    a->certificate = PEM_read_X509(from, NULL, NULL, NULL);
    fclose(from);
    from = fopen(key_file, "re");
    ck_assert_ptr_nonnull(from);
    a->key = PEM_read_PrivateKey(from, NULL, NULL, NULL);
    fclose(from);
    ck_assert(a->certificate && a->key);
}

void authority_end(authority *a)
{
    X509_free(a->certificate);
    EVP_PKEY_free(a->key);
    *a = (authority){0};
}

void authority_write(const authority *const *authorities, int n, const char *ca_file)
{
    char beside[PATH_ROOM];
    FILE *to = open_beside(ca_file, beside);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(PEM_write_X509(to, authorities[i]->certificate), 1);
    put_in_place(to, beside, ca_file);
}

void authority_issue(const authority *a, const char *address, long from_now_s, const char *cert_file,
                     const char *key_file)
{
    char names[128];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    ck_assert_ptr_nonnull(key);
    X509 *certificate =
        begin(address ? "server" : "client", key, X509_get_subject_name(a->certificate), from_now_s);
    extend(certificate, a->certificate, NID_key_usage, "digitalSignature");
    /* A member's gateway calls the member itself as a client does. */
    extend(certificate, a->certificate, NID_ext_key_usage, address ? "serverAuth,clientAuth" : "clientAuth");
    snprintf(names, sizeof names, "IP:%s", address ? address : "");
    if (address) extend(certificate, a->certificate, NID_subject_alt_name, names);
    ck_assert_int_gt(X509_sign(certificate, a->key, EVP_sha256()), 0);
    write_certificate(cert_file, certificate);
    write_key(key_file, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
}
