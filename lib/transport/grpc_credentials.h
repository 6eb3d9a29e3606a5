/* The credentials of a transport's connections, which follow their certificate files. */
#ifndef EL_GRPC_CREDENTIALS_H
#define EL_GRPC_CREDENTIALS_H

#include <grpc/grpc_security.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/grpc.h"

enum { EL_GRPC_CA, EL_GRPC_CERT, EL_GRPC_KEY, EL_GRPC_FILES };

/* Tells one state of a file from another. */
typedef struct el_grpc_stamp {
    uint64_t device, inode;
    int64_t size, modified_ns, changed_ns;
} el_grpc_stamp;

typedef struct el_grpc_credentials {
    grpc_channel_credentials *current;
    unsigned generation; /* raised when `current` becomes another */
    bool tls;
    bool follows_files;
    struct el_grpc_pem {
        char *path;          /* NULL: the contents never change */
        char *pem;           /* NULL: none */
        el_grpc_stamp stamp; /* of the file when pem was in it */
    } files[EL_GRPC_FILES];
} el_grpc_credentials;

/* 0, ENOMEM, or EINVAL if gRPC refuses them; clear it in every case. */
int el_grpc_credentials_init(el_grpc_credentials *credentials, const el_grpc_config *config);
void el_grpc_credentials_clear(el_grpc_credentials *credentials);

/* Looks whether the files have changed and, if they are whole and fit together, makes `current` anew from
 * them; otherwise it stays as it is until the next look. Reads local files, waits for nobody. */
void el_grpc_credentials_refresh(el_grpc_credentials *credentials);

#endif
