/* Marks for what the library exports. */
#ifndef ETCDLOCK_EXPORT_H
#define ETCDLOCK_EXPORT_H

#if defined(__GNUC__)
#define ETCDLOCK_API __attribute__((visibility("default")))
/* A lock call whose result is not looked at leaves its critical section unprotected when etcd is away. */
#define ETCDLOCK_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define ETCDLOCK_API
#define ETCDLOCK_CHECK_RESULT
#endif

#endif
