/* Makes and reads R values for the library. R's errors are caught here: they are jumps, which must
   not cross Rust's stack frames. R raises an error wherever it allocates, and an object of an
   ALTREP class allocates, or runs any code, where its values are read. */

#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>

#include <R_ext/Memory.h>
#include <Rinternals.h>

/* Needs the types of the header before it. */
#include <R_ext/Altrep.h>

#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#endif

/* ---- catching errors ------------------------------------------------------------------------- */

typedef struct {
    SEXP (*make)(void *);
    void *data;
} attempt;

/* R makes it while it loads the library, because making it can fail. */
static SEXP continuation = NULL;

void gmhclust_prepare_values(void) {
    continuation = R_MakeUnwindCont();
    R_PreserveObject(continuation);
}

static SEXP nothing(SEXP condition, void *unused) {
    return R_NilValue;
}

static SEXP with_handler(void *data) {
    attempt *wanted = data;
    return R_tryCatchError(wanted->make, wanted->data, nothing, NULL);
}

static void leave(void *place, Rboolean jumps) {
    if (jumps) longjmp(*(jmp_buf *) place, 1);
}

/* The value of make(data), which is not R_NilValue, or NULL if R raised an error. R_tryCatchError()
   needs memory itself before it can catch errors. R_UnwindProtect() needs none, so it catches the
   jump if R_tryCatchError() has too little memory. R_UnwindProtect() would also stop interrupts, so
   R code suspends interrupts around its calls. */
static SEXP caught(SEXP (*make)(void *), void *data) {
    attempt wanted = {make, data};
    jmp_buf place;
    if (setjmp(place)) return NULL;
    SEXP value = R_UnwindProtect(with_handler, &wanted, leave, &place, continuation);
    /* The continuation refers to the value, which would otherwise never be freed. */
    SETCAR(continuation, R_NilValue);
    return value == R_NilValue ? NULL : value;
}

/* ---- making values --------------------------------------------------------------------------- */

typedef struct {
    SEXPTYPE type;
    R_xlen_t length;
} request;

static SEXP allocate(void *data) {
    request *wanted = data;
    return Rf_allocVector(wanted->type, wanted->length);
}

/* A vector with arbitrary values, or NULL if R has too little memory. */
static SEXP vector(SEXPTYPE type, size_t size, double length) {
    request wanted = {type, (R_xlen_t) length};
    SEXP vector = caught(allocate, &wanted);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    /* Huge pages save most of the time of page faults. The system may ignore this advice. */
    const uintptr_t page = (uintptr_t) 1 << 21;
    if (vector && wanted.length >= (R_xlen_t) (4 * page / size)) {
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
    return caught(split_indices, &all);
}

/* The same for doubles, which stay as they are. */
SEXP gmhclust_split_doubles(const double *values, const size_t *ends, double vectors) {
    series all = {values, ends, (R_xlen_t) vectors};
    return caught(split_doubles, &all);
}

static SEXP collect_garbage(void *unused) {
    R_gc();
    return R_NilValue;
}

/* Runs R's garbage collector. */
void gmhclust_collect_garbage(void) { caught(collect_garbage, NULL); }

/* TRUE or FALSE, which always exist, so nothing is allocated. */
SEXP gmhclust_logical(int value) {
    return Rf_ScalarLogical(value != 0);
}

/* Bytes of a text in UTF-8, without zeros. */
typedef struct {
    const char *bytes;
    int length;
} text;

typedef struct {
    const text *texts;
    size_t count;
} texts;

static SEXP make_strings(void *data) {
    texts *wanted = data;
    SEXP strings = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t) wanted->count));
    for (size_t i = 0; i < wanted->count; i++) {
        const text *one = wanted->texts + i;
        SET_STRING_ELT(strings, (R_xlen_t) i, Rf_mkCharLenCE(one->bytes, one->length, CE_UTF8));
    }
    UNPROTECT(1);
    return strings;
}

/* A character vector, or NULL. */
SEXP gmhclust_strings(const text *list, size_t count) {
    texts wanted = {list, count};
    return caught(make_strings, &wanted);
}

typedef struct {
    texts names;
    const SEXP *values;
} fields;

static SEXP make_list(void *data) {
    fields *wanted = data;
    const R_xlen_t count = (R_xlen_t) wanted->names.count;
    SEXP list = PROTECT(Rf_allocVector(VECSXP, count));
    for (R_xlen_t i = 0; i < count; i++) SET_VECTOR_ELT(list, i, wanted->values[i]);
    SEXP names = PROTECT(make_strings(&wanted->names));
    Rf_setAttrib(list, R_NamesSymbol, names);
    UNPROTECT(2);
    return list;
}

/* A named list of protected values, or NULL. */
SEXP gmhclust_list(const text *names, const SEXP *values, size_t count) {
    fields wanted = {{names, count}, values};
    return caught(make_list, &wanted);
}

typedef struct {
    SEXP vector;
    const char *name;
    SEXP value;
} attribute;

static SEXP set_attribute(void *data) {
    attribute *wanted = data;
    Rf_setAttrib(wanted->vector, Rf_install(wanted->name), wanted->value);
    return wanted->vector;
}

/* Sets an attribute of a vector in place. Returns the vector, or NULL. */
SEXP gmhclust_set_attribute(SEXP vector, const char *name, SEXP value) {
    attribute wanted = {vector, name, value};
    return caught(set_attribute, &wanted);
}

typedef struct {
    const char *tag;
    R_CFinalizer_t free;
} kind;

static SEXP make_pointer(void *data) {
    kind *wanted = data;
    SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, Rf_install(wanted->tag), R_NilValue));
    R_RegisterCFinalizerEx(pointer, wanted->free, TRUE);
    UNPROTECT(1);
    return pointer;
}

/* An external pointer with this tag, whose address is set later, or NULL. R calls `free` with the
   pointer before it is gone. */
SEXP gmhclust_pointer(const char *tag, R_CFinalizer_t free) {
    kind wanted = {tag, free};
    return caught(make_pointer, &wanted);
}

/* The address of an external pointer with this tag; NULL for any other object. */
void *gmhclust_address(SEXP pointer, const char *tag) {
    if (TYPEOF(pointer) != EXTPTRSXP || TYPEOF(R_ExternalPtrTag(pointer)) != SYMSXP) return NULL;
    const char *found = R_CHAR(PRINTNAME(R_ExternalPtrTag(pointer)));
    while (*tag && *tag == *found) tag++, found++;
    return *tag == *found ? R_ExternalPtrAddr(pointer) : NULL;
}

void gmhclust_set_address(SEXP pointer, void *address) {
    if (address) {
        R_SetExternalPtrAddr(pointer, address);
    } else {
        R_ClearExternalPtr(pointer);
    }
}

/* ---- reading values -------------------------------------------------------------------------- */

/* The values of a vector. `rows` is negative unless the vector is a matrix. */
typedef struct {
    const void *first;
    double length;
    double rows;
    double columns;
} view;

typedef struct {
    SEXP vector;
    view *found;
} reading;

/* Asks for values that only are read: to write, R would copy a vector that shares its values with
   another one, such as x after dimnames(x) <- NULL. Such a vector is of an ALTREP class. */
static SEXP read_vector(void *data) {
    reading *wanted = data;
    SEXP vector = wanted->vector;
    view *found = wanted->found;
    found->length = (double) XLENGTH(vector);
    switch (TYPEOF(vector)) {
    case REALSXP: found->first = REAL_RO(vector); break;
    case INTSXP: found->first = INTEGER_RO(vector); break;
    case RAWSXP: found->first = RAW_RO(vector); break;
    default: Rf_error("no vector of numbers");
    }
    SEXP dim = Rf_getAttrib(vector, R_DimSymbol);
    if (TYPEOF(dim) == INTSXP && XLENGTH(dim) == 2) {
        found->rows = INTEGER(dim)[0];
        found->columns = INTEGER(dim)[1];
    }
    return vector;
}

/* Reads a vector of this type. Returns 0 for success; 1 if the object has another type; 2 if R
   raised an error, because it has too little memory or the class of the object does not give its
   values. */
int gmhclust_read(SEXP vector, int type, view *found) {
    found->first = NULL;
    found->length = 0;
    found->rows = found->columns = -1;
    if ((int) TYPEOF(vector) != type) return 1;
    reading wanted = {vector, found};
    /* Most vectors are plain, and reading them raises no error. */
    if (!ALTREP(vector) && Rf_getAttrib(vector, R_DimSymbol) == R_NilValue) {
        read_vector(&wanted);
        return 0;
    }
    return caught(read_vector, &wanted) ? 0 : 2;
}

/* The object of this number, 1 or 2, in which an object of an ALTREP class keeps its values; R's
   NULL if it has none. */
SEXP gmhclust_altrep_data(SEXP vector, int number) {
    if (!ALTREP(vector)) return R_NilValue;
    return number == 1 ? R_altrep_data1(vector) : R_altrep_data2(vector);
}
