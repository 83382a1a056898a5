/* R calls R_init_gmhclust when it loads the shared library; everything behind it is Rust. */

#include <R_ext/Rdynload.h>

void R_init_gmhclust_extendr(DllInfo *dll);
void register_extendr_panic_hook(void);
void gmhclust_prepare(void);
void gmhclust_limit_arenas(void);

void R_init_gmhclust(DllInfo *dll) {
    /* Panics become R errors that carry the message; without this they would be printed too. */
    register_extendr_panic_hook();
    R_init_gmhclust_extendr(dll);
    gmhclust_limit_arenas();
    gmhclust_prepare();
    R_useDynamicSymbols(dll, FALSE);
    R_forceSymbols(dll, TRUE);
}
