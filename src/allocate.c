/* Allocates R vectors that the library's threads fill in, and lists of vectors. */

#include <stddef.h>

#include <R_ext/Memory.h>
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

/* Values of several vectors, one after the other. */
typedef struct {
    const void *values;
    /* By vector: the place after its last value. */
    const size_t *ends;
    R_xlen_t vectors;
} series;

static SEXP split_indices(void *data) {
    const series *all = data;
    const unsigned *index = all->values;
    SEXP list = PROTECT(Rf_allocVector(VECSXP, all->vectors));
    size_t at = 0;
    for (R_xlen_t i = 0; i < all->vectors; i++) {
        SEXP own = Rf_allocVector(INTSXP, (R_xlen_t) (all->ends[i] - at));
        SET_VECTOR_ELT(list, i, own);
        for (int *to = INTEGER(own); at < all->ends[i]; at++) *to++ = (int) index[at] + 1;
    }
    UNPROTECT(1);
    return list;
}

static SEXP split_doubles(void *data) {
    const series *all = data;
    const double *values = all->values;
    SEXP list = PROTECT(Rf_allocVector(VECSXP, all->vectors));
    size_t at = 0;
    for (R_xlen_t i = 0; i < all->vectors; i++) {
        SEXP own = Rf_allocVector(REALSXP, (R_xlen_t) (all->ends[i] - at));
        SET_VECTOR_ELT(list, i, own);
        for (double *to = REAL(own); at < all->ends[i]; at++) *to++ = values[at];
    }
    UNPROTECT(1);
    return list;
}

/* A list of integer vectors of indices that count from 0 here and from 1 in R, or NULL if R has too
   little memory. */
SEXP gmhclust_split_indices(const unsigned *index, const size_t *ends, double vectors) {
    series all = {index, ends, (R_xlen_t) vectors};
    return R_tryCatchError(split_indices, &all, refused, NULL);
}

/* The same for doubles, which stay as they are. */
SEXP gmhclust_split_doubles(const double *values, const size_t *ends, double vectors) {
    series all = {values, ends, (R_xlen_t) vectors};
    return R_tryCatchError(split_doubles, &all, refused, NULL);
}

/* Has R free what it does not use any more. */
void gmhclust_collect_garbage(void) { R_gc(); }

SEXP gmhclust_allocate_doubles(double length) {
    return vector(REALSXP, sizeof(double), length);
}

SEXP gmhclust_allocate_integers(double length) {
    return vector(INTSXP, sizeof(int), length);
}
