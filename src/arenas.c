/* Limits what glibc's arenas take: address space under `ulimit -v`, and memory between calls. */

#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#include <sys/resource.h>

/* glibc reserves an arena of 64 MiB of address space for each new thread, and keeps it when the
   thread ends. If address space is limited, the arenas of a few threads would take all of it. So
   all arenas together may take a sixteenth of the address space, and threads then share arenas. The
   user's setting MALLOC_ARENA_MAX takes precedence. */
void gmhclust_limit_arenas(void) {
    const rlim_t arena = (rlim_t) 1 << 26, share = 16, most = 1024;
    struct rlimit limit;
    if (getenv("MALLOC_ARENA_MAX") || getrlimit(RLIMIT_AS, &limit)) return;
    if (limit.rlim_cur == RLIM_INFINITY) return;
    rlim_t arenas = limit.rlim_cur / share / arena;
    if (arenas < most) mallopt(M_ARENA_MAX, arenas ? (int) arenas : 1);
}

/* Returns free memory of all arenas to the system. By itself, glibc returns only what is free at an
   arena's end, and keeps more than 10 bytes per observation. */
void gmhclust_trim_arenas(void) {
    malloc_trim(0);
}

#else

void gmhclust_limit_arenas(void) {}
void gmhclust_trim_arenas(void) {}
#endif
