/* Memory of R's for results that threads of the library fill in. */

#include <Rinternals.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#endif

typedef struct {
    SEXPTYPE type;
    R_xlen_t length;
} request;

static SEXP allocate(void *what) {
    request *wanted = what;
    return Rf_allocVector(wanted->type, wanted->length);
}

static SEXP refused(SEXP condition, void *unused) {
    return R_NilValue;
}

/* A vector that holds no particular values, or NULL where R has no memory for it: R's error is
   caught here, for it must not jump over Rust's frames. */
static SEXP vector(SEXPTYPE type, size_t size, double length) {
    request wanted = {type, (R_xlen_t) length};
    SEXP vector = R_tryCatchError(allocate, &wanted, refused, NULL);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* Large pages, where the system has them, save most of the time that it takes to get memory.
       It is a wish, which may be refused. */
    const uintptr_t page = (uintptr_t) 1 << 21;
    if (vector != R_NilValue && wanted.length >= (R_xlen_t) (4 * page / size)) {
        uintptr_t start = (uintptr_t) (type == REALSXP ? (void *) REAL(vector)
                                                       : (void *) INTEGER(vector));
        uintptr_t first = (start + page - 1) / page * page;
        uintptr_t last = (start + wanted.length * size) / page * page;
        madvise((void *) first, last - first, MADV_HUGEPAGE);
    }
#endif
    return vector;
}

SEXP gmhclust_allocate_doubles(double length) {
    return vector(REALSXP, sizeof(double), length);
}

SEXP gmhclust_allocate_integers(double length) {
    return vector(INTSXP, sizeof(int), length);
}
