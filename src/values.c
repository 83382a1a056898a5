/* Allocates R vectors that the library's threads fill in. */

#include <Rinternals.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#endif

typedef struct {
    SEXPTYPE type;
    R_xlen_t length;
} request;

static SEXP allocate(void *data) {
    request *wanted = data;
    return Rf_allocVector(wanted->type, wanted->length);
}

static SEXP refused(SEXP condition, void *unused) {
    return R_NilValue;
}

/* A vector with arbitrary values, or NULL if R has too little memory. R's error is caught here,
   because it must not jump over Rust's stack frames. */
static SEXP vector(SEXPTYPE type, size_t size, double length) {
    request wanted = {type, (R_xlen_t) length};
    SEXP vector = R_tryCatchError(allocate, &wanted, refused, NULL);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* Huge pages save most of the time of page faults. The system may ignore this advice. */
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
