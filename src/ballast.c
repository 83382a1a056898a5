/* Address space that a job keeps for a shortage of memory; see rust/src/reserve.rs. */

#include <stddef.h>

/* malloc() may keep what it is given back for the thread that asked for it, so ask the system. */
#ifndef _WIN32
#include <sys/mman.h>

/* NULL where the system refuses. None of it is touched, so it takes no real memory. */
void *gmhclust_ballast_take(size_t bytes) {
    void *ballast = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    return ballast == MAP_FAILED ? NULL : ballast;
}

void gmhclust_ballast_give_back(void *ballast, size_t bytes) {
    munmap(ballast, bytes);
}

#else
#include <windows.h>

void *gmhclust_ballast_take(size_t bytes) {
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void gmhclust_ballast_give_back(void *ballast, size_t bytes) {
    VirtualFree(ballast, 0, MEM_RELEASE);
}
#endif
