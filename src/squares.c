/* Means of columns, and the sum of squares about them, with the bits of R's colMeans() and sum(),
   which add in long double. */

#include <stddef.h>

/* Number of values that are added up between two checks of `stop`. */
enum { AT_A_TIME = 1 << 20 };

/* The distance, in values, to the next row and to the next column. */
struct steps {
    size_t row, column;
};

/* Adds up four columns side by side, so that no addition waits for the addition before it. */
static void add_four(const double *const *column, size_t n, size_t step, long double *sums) {
    const double *a = column[0], *b = column[1], *c = column[2], *d = column[3];
    long double of_a = sums[0], of_b = sums[1], of_c = sums[2], of_d = sums[3];
    for (size_t i = 0; i < n * step; i += step) {
        of_a += a[i];
        of_b += b[i];
        of_c += c[i];
        of_d += d[i];
    }
    sums[0] = of_a, sums[1] = of_b, sums[2] = of_c, sums[3] = of_d;
}

static long double add_squares(long double total, const double *x, size_t n, size_t step,
                               double mean) {
    for (size_t i = 0; i < n * step; i += step) {
        double difference = x[i] - mean;
        total += difference * difference;
    }
    return total;
}

/* The means of at most four columns of n values. If another thread sets `stop`, the function soon
   returns other values. */
void gmhclust_means(const double *x, size_t n, size_t columns, struct steps steps,
                    const volatile int *stop, double *means) {
    long double sums[4] = {0};
    for (size_t start = 0; start < n && !*stop; start += AT_A_TIME) {
        size_t count = n - start < AT_A_TIME ? n - start : AT_A_TIME;
        const double *column[4];
        for (size_t k = 0; k < 4; k++) {
            column[k] = x + steps.column * (k < columns ? k : 0) + steps.row * start;
        }
        add_four(column, count, steps.row, sums);
    }
    for (size_t k = 0; k < columns; k++) means[k] = (double) (sums[k] / (long double) n);
}

/* The sum of the squares of n rows and p columns about their means, added column after column. If
   another thread sets `stop`, the function soon returns another value. */
double gmhclust_squares(const double *x, size_t n, size_t p, struct steps steps,
                        const double *means, const volatile int *stop) {
    long double total = 0;
    for (size_t k = 0; k < p; k++) {
        for (size_t start = 0; start < n && !*stop; start += AT_A_TIME) {
            size_t count = n - start < AT_A_TIME ? n - start : AT_A_TIME;
            const double *first = x + steps.column * k + steps.row * start;
            total = add_squares(total, first, count, steps.row, means[k]);
        }
    }
    return (double) total;
}
