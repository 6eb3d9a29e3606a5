#include "core/backoff.h"

int64_t el_backoff_ns(unsigned attempts, int64_t base_ns, int64_t limit_ns, uint64_t random)
{
    int64_t ceiling = base_ns;
    while (attempts-- > 0 && ceiling < limit_ns)
        ceiling = ceiling > limit_ns / 2 ? limit_ns : ceiling * 2;
    if (ceiling > limit_ns) ceiling = limit_ns;
    return (int64_t)(random % ((uint64_t)ceiling + 1));
}
