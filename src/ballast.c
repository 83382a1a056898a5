/* Reserves address space for a shortage of memory; see rust/reserve/src/ballast.rs. */

#include <stddef.h>

/* malloc() will not do: free() may keep the memory for the thread that allocated it. */
#ifndef _WIN32
#include <sys/mman.h>

/* Returns NULL if the system refuses. Untouched pages take no physical memory. */
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
