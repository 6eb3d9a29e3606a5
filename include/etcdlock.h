/* libetcdlock: distributed locks on top of etcd v3. This header includes all of the public ones but
 * etcdlock/fence.h, which is of a library of its own; each of them is the manual of its part. */
#ifndef ETCDLOCK_H
#define ETCDLOCK_H

#include "etcdlock/async.h"
#include "etcdlock/client.h"
#include "etcdlock/error.h"
#include "etcdlock/export.h"
#include "etcdlock/guard.h"
#include "etcdlock/mutex.h"
#include "etcdlock/query.h"
#include "etcdlock/session.h"
#include "etcdlock/version.h"

#endif
