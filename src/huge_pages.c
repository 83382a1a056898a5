/* Asks the system for huge pages; see rust/reserve/src/huge_pages.rs. */

#include <stddef.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#ifdef MADV_HUGEPAGE

/* Advises huge pages for all pages of this memory, also for pages that it shares with the
   allocator's own data: if a mapping had pages of both kinds, the system could not move it, and
   realloc() would copy it. Only the time depends on whether the system follows the advice. */
void gmhclust_prefer_huge_pages(void *memory, size_t bytes) {
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE), start = (uintptr_t) memory;
    uintptr_t first = start / page * page, end = (start + bytes + page - 1) / page * page;
    madvise((void *) first, end - first, MADV_HUGEPAGE);
}

#else

void gmhclust_prefer_huge_pages(void *memory, size_t bytes) {
    (void) memory;
    (void) bytes;
}
#endif
