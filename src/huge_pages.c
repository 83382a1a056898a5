/* Asks the system for huge pages; see rust/reserve/src/huge_pages.rs. */

#include <stddef.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* For the whole pages of this memory. Only the time depends on whether the system follows. */
void gmhclust_prefer_huge_pages(void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), start = (uintptr_t) memory;
    uintptr_t first = (start + page - 1) / page * page, end = (start + bytes) / page * page;
    if (first < end) madvise((void *) first, end - first, MADV_HUGEPAGE);
}

#else

void gmhclust_prefer_huge_pages(void *memory, size_t bytes) {
    (void) memory;
    (void) bytes;
}
#endif
