/* Kingma and Ba (2015), Algorithm 1, upwards: what `policies/adam.py` does. */
#include <math.h>
#include <stdint.h>

typedef struct {
  int64_t n_tensors;
  const int64_t *sizes;
  real *const *parameters;
  real *gradient, *means, *squares; /* one after the other */
  double beta[2], eps;
} Adam;

/* Length of the gradient. */
static inline double length_of(const Adam *a) {
  double square = 0;
  for (int64_t t = 0, at = 0; t < a->n_tensors; t++)
    for (int64_t i = 0; i < a->sizes[t]; i++, at++)
      square += (double)a->gradient[at] * a->gradient[at];
  return sqrt(square);
}

/* `rate` and `unbiased` are `Adam.rates`. */
static inline void step(const Adam *a, double rate, double unbiased) {
  for (int64_t t = 0, at = 0; t < a->n_tensors; t++)
    for (int64_t i = 0; i < a->sizes[t]; i++, at++) {
      real g = a->gradient[at], *m = a->means + at, *s = a->squares + at;
      *m += (real)(1.0 - a->beta[0]) * (g - *m);
      *s = (real)a->beta[1] * *s + (real)(1.0 - a->beta[1]) * g * g;
      real length = (real)sqrt((double)*s) / (real)unbiased;
      a->parameters[t][i] += *m * (real)rate / (length + (real)a->eps);
    }
}
