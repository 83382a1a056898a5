/* Memory of R's for results that threads of the library fill in. */

#include <Rinternals.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#endif

static SEXP allocate(void *length) {
    return Rf_allocVector(REALSXP, *(R_xlen_t *) length);
}

static SEXP refused(SEXP condition, void *unused) {
    return R_NilValue;
}

/* A double vector that holds no particular values, or NULL where R has no memory for it: R's
   error is caught here, for it must not jump over Rust's frames. */
SEXP gmhclust_allocate_doubles(double length) {
    R_xlen_t n = (R_xlen_t) length;
    SEXP vector = R_tryCatchError(allocate, &n, refused, NULL);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* Large pages, where the system has them, save most of the time that it takes to get memory.
       It is a wish, which may be refused. */
    const uintptr_t page = (uintptr_t) 1 << 21;
    if (vector != R_NilValue && n >= (R_xlen_t) (4 * page / sizeof(double))) {
        uintptr_t start = (uintptr_t) REAL(vector);
        uintptr_t first = (start + page - 1) / page * page;
        uintptr_t last = (start + n * sizeof(double)) / page * page;
        madvise((void *) first, last - first, MADV_HUGEPAGE);
    }
#endif
    return vector;
}
