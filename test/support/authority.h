/* A certificate authority of the test's own, which signs what the case needs: for a certain address, and for
 * as long as it likes. All of it aborts the case if it cannot. */
#ifndef TEST_AUTHORITY_H
#define TEST_AUTHORITY_H

#include <openssl/x509.h>

typedef struct authority {
    X509 *certificate;
    EVP_PKEY *key;
} authority;

void authority_make(authority *a, const char *name);
/* The one that the files hold. */
void authority_load(authority *a, const char *cert_file, const char *key_file);
void authority_end(authority *a);

/* Replaces or makes the file, in one step; more than one authority makes a bundle. */
void authority_write(const authority *const *authorities, int n, const char *ca_file);

/* Replaces or makes the two files, one after the other. address: for a server at this IP address; NULL: for a
 * client. It is good from a minute ago until from_now_s, which may be negative. */
void authority_issue(const authority *a, const char *address, long from_now_s, const char *cert_file,
                     const char *key_file);

#endif
