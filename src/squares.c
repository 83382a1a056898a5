/* The sum of squares about the means of columns, with the bits of R's colMeans() and sum(), which
   add in extended precision where R has it. */

#include <stddef.h>

/* Defines two functions for sums of this type, of columns of n values. */
#define SUMS(real, add_four, add_squares)                                                          \
    /* The sums of four columns: side by side, so that no addition waits for the one before it. */ \
    static void add_four(const double *const *column, size_t n, real *sums) {                      \
        const double *a = column[0], *b = column[1], *c = column[2], *d = column[3];               \
        real of_a = 0, of_b = 0, of_c = 0, of_d = 0;                                               \
        for (size_t i = 0; i < n; i++) {                                                           \
            of_a += a[i];                                                                          \
            of_b += b[i];                                                                          \
            of_c += c[i];                                                                          \
            of_d += d[i];                                                                          \
        }                                                                                          \
        sums[0] = of_a, sums[1] = of_b, sums[2] = of_c, sums[3] = of_d;                            \
    }                                                                                              \
                                                                                                   \
    static double add_squares(const double *x, size_t n, size_t p) {                               \
        real total = 0, sums[4];                                                                   \
        for (size_t first = 0; first < p; first += 4) {                                            \
            const double *column[4];                                                               \
            for (size_t k = 0; k < 4; k++)                                                         \
                column[k] = x + n * (first + k < p ? first + k : first);                           \
            add_four(column, n, sums);                                                             \
            for (size_t k = 0; k < 4 && first + k < p; k++) {                                      \
                double mean = (double) (sums[k] / (real) n);                                       \
                for (size_t i = 0; i < n; i++) {                                                   \
                    double difference = column[k][i] - mean;                                       \
                    total += difference * difference;                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return (double) total;                                                                     \
    }

SUMS(long double, add_four_extended, add_squares_extended)
SUMS(double, add_four, add_squares)

/* `extended` says whether this R adds in long double. */
double gmhclust_squares_about_means(const double *x, size_t n, size_t p, int extended) {
    return extended ? add_squares_extended(x, n, p) : add_squares(x, n, p);
}
