/* Address space where it is limited (ulimit -v). */

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/resource.h>

/* glibc reserves 64 MiB of address space for the allocations of every new thread and keeps them when
   the thread ends. Where address space is limited, a few threads leave nothing to R, so that these
   arenas together get at most a sixteenth of it; threads share them. The user's own setting counts
   first. */
void gmhclust_limit_arenas(void) {
    const rlim_t arena = (rlim_t) 1 << 26, share = 16, most = 1024;
    struct rlimit limit;
    if (getenv("MALLOC_ARENA_MAX") || getrlimit(RLIMIT_AS, &limit)) return;
    if (limit.rlim_cur == RLIM_INFINITY) return;
    rlim_t arenas = limit.rlim_cur / share / arena;
    if (arenas < most) mallopt(M_ARENA_MAX, arenas ? (int) arenas : 1);
}

#else

void gmhclust_limit_arenas(void) {}
#endif
