/* R calls R_init_gmhclust when it loads the shared library. It registers the Rust functions. */

#include <R_ext/Rdynload.h>

void R_init_gmhclust_extendr(DllInfo *dll);
void register_extendr_panic_hook(void);
void gmhclust_prepare(void);
void gmhclust_prepare_values(void);
void gmhclust_limit_arenas(void);

void R_init_gmhclust(DllInfo *dll) {
    /* Panics become R errors with their message. Without this hook, Rust would also print them. */
    register_extendr_panic_hook();
    R_init_gmhclust_extendr(dll);
    gmhclust_limit_arenas();
    gmhclust_prepare_values();
    gmhclust_prepare();
    R_useDynamicSymbols(dll, FALSE);
    R_forceSymbols(dll, TRUE);
}
