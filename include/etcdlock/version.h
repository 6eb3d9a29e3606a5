/* The version of the library: this is the one place where it is written. */
#ifndef ETCDLOCK_VERSION_H
#define ETCDLOCK_VERSION_H

#define ETCDLOCK_VERSION_MAJOR 0
#define ETCDLOCK_VERSION_MINOR 1
#define ETCDLOCK_VERSION_PATCH 0

#endif
