/* Means of columns, and the sum of squares about them, with the bits of R's colMeans() and sum(),
   which add in long double. */

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

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

/* A sum in long double for Rust, which has no such type. */
struct long_double {
    _Alignas(16) unsigned char bytes[16];
};

_Static_assert(sizeof(struct long_double) >= sizeof(long double), "has room for a long double");

static long double get(const struct long_double *from) {
    long double value;
    memcpy(&value, from, sizeof value);
    return value;
}

static void set(struct long_double *to, long double value) { memcpy(to, &value, sizeof value); }

void gmhclust_zero(struct long_double *total) { set(total, 0); }

double gmhclust_rounded(const struct long_double *total) { return (double) get(total); }

/* Adds the squares of n values of a column about its mean to `total`. If another thread sets
   `stop`, the function soon returns with another sum. */
void gmhclust_add_squares(const double *x, size_t n, size_t step, double mean,
                          const volatile int *stop, struct long_double *total) {
    long double sum = get(total);
    for (size_t start = 0; start < n && !*stop; start += AT_A_TIME) {
        size_t count = n - start < AT_A_TIME ? n - start : AT_A_TIME;
        sum = add_squares(sum, x + step * start, count, step, mean);
    }
    set(total, sum);
}

/* Whether `gmhclust_increments` has a meaning: sums are rounded to 64 bits, but not, for example,
   under valgrind, which has doubles in place of long doubles. */
int gmhclust_has_increments(void) {
    volatile long double one = 1, next = one + LDBL_EPSILON;
    return FLT_RADIX == 2 && LDBL_MANT_DIG == 64 && next > one;
}

/* What adding the squares of n values of a column about its mean adds to a sum that is at least
   2^exponent, and less than 2^(exponent + 1) to the end. Such sums are multiples of a unit, and an
   addition rounds the square to a multiple of it. Only a square halfway between two multiples is
   rounded by the sum: to the multiple that makes the sum even. So there are two increments, of even
   sums and of odd sums, in units. */
void gmhclust_increments(const double *x, size_t n, size_t step, double mean, int exponent,
                         struct long_double increments[2]) {
    long double even = ldexpl(1, exponent), unit = ldexpl(1, exponent - (LDBL_MANT_DIG - 1));
    long double odd = even + unit, of_even = even, of_odd = odd;
    for (size_t i = 0; i < n * step; i += step) {
        double difference = x[i] - mean, square = difference * difference;
        of_even += square;
        of_odd += square;
    }
    set(&increments[0], of_even - even);
    set(&increments[1], of_odd - odd);
}

/* Adds the increment of `gmhclust_increments` to `total` if it fits: if the sum has this exponent
   before and after. Returns whether it does. */
int gmhclust_add_increment(struct long_double *total, int exponent,
                           const struct long_double increments[2]) {
    long double sum = get(total), start = ldexpl(1, exponent), end = ldexpl(1, exponent + 1);
    if (!(sum >= start && sum < end)) return 0;
    long double units = ldexpl(sum - start, LDBL_MANT_DIG - 1 - exponent);
    long double increment = get(&increments[fmodl(units, 2) != 0]);
    if (!(increment >= 0 && increment < end - sum)) return 0;
    set(total, sum + increment);
    return 1;
}
