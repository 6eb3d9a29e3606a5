/* Marks for what the library exports, and the first value of an options structure. */
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

/* What the INIT macros are made of: a structure whose size is set, and of which nothing else is said. C++ has
 * had C's way to write that since 2020 only. */
#ifdef __cplusplus
extern "C++" {
template <typename type> inline type etcdlock_sized()
{
    type value = type();
    value.size = sizeof(type);
    return value;
}
}
#define ETCDLOCK_SIZED(type) etcdlock_sized<type>()
#else
#define ETCDLOCK_SIZED(type)                                                                                 \
    {                                                                                                        \
        .size = sizeof(type)                                                                                 \
    }
#endif

#endif
