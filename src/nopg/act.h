/* Perceptrons that act, as `ArrayPolicies.compiled_fields` lays them out. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 16 /* numbers of a layer that are summed up side by side, in registers */
#ifdef __AVX__
#define ABREAST 4
#else
#define ABREAST 2
#endif
typedef double Abreast __attribute__((vector_size(8 * ABREAST), aligned(8), may_alias));

typedef struct {
  int64_t count, n_layers, n_out, is_discrete, is_decided, is_squashed;
  const int64_t *widths;           /* (n_layers + 1) */
  const double *mean, *factor;  /* (count, widths[0]) */
  const double *weights;        /* of each policy, all layers (in, out) in turn */
  const double *biases;         /* of each policy, all layers in turn */
  const double *middle, *half;  /* (n_out), of the squashing */
} Perceptrons;

/* Numbers that the widest layer has. */
static inline int64_t widest(const Perceptrons *a) {
  int64_t width = 0;
  for (int64_t l = 0; a->widths && l <= a->n_layers; l++)
    width = a->widths[l] > width ? a->widths[l] : width;
  return width;
}

/* What the k-th of them does in a state; `one` and `two` are as wide as its widest layer. */
static inline void act(const Perceptrons *a, int64_t k, const double *state, double *action,
                       double *one, double *two) {
  int64_t d = a->widths[0], size = 0, n_biases = 0;
  for (int64_t l = 0; l < a->n_layers; l++) {
    size += a->widths[l] * a->widths[l + 1];
    n_biases += a->widths[l + 1];
  }
  const double *w = a->weights + k * size, *b = a->biases + k * n_biases;
  for (int64_t i = 0; i < d; i++)
    one[i] = (state[i] - a->mean[k * d + i]) * a->factor[k * d + i];
  for (int64_t l = 0; l < a->n_layers; l++) {
    int64_t n = a->widths[l], m = a->widths[l + 1], n_on = 0, on[n];
    for (int64_t i = 0; i < n; i++) { /* of later layers half are off */
      on[n_on] = i;
      n_on += !l || !(one[i] <= 0.0);
    }
    for (int64_t j = 0; j < m; j += AT_ONCE) {
      if (m - j >= AT_ONCE) {
        Abreast sums[AT_ONCE / ABREAST];
        memcpy(sums, b + j, sizeof(sums));
        for (int64_t i = 0; i < n_on; i++) {
          const Abreast *row = (const Abreast *)(w + on[i] * m + j);
          for (int q = 0; q < AT_ONCE / ABREAST; q++) sums[q] += one[on[i]] * row[q];
        }
        memcpy(two + j, sums, sizeof(sums));
        continue;
      }
      for (int64_t q = j; q < m; q++) {
        double sum = b[q];
        for (int64_t i = 0; i < n_on; i++) sum += one[on[i]] * w[on[i] * m + q];
        two[q] = sum;
      }
    }
    w += n * m;
    b += m;
    double *swap = one;
    one = two;
    two = swap;
  }
  int64_t n = a->n_out;
  if (a->is_discrete) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) best = one[i] > one[best] ? i : best;
    double top = one[best], total = 0.0;
    for (int64_t i = 0; i < n; i++) {
      action[i] = a->is_decided ? i == best : exp(one[i] - top);
      total += action[i];
    }
    for (int64_t i = 0; i < n; i++) action[i] /= total;
  } else if (a->is_squashed) {
    for (int64_t i = 0; i < n; i++) action[i] = a->middle[i] + a->half[i] * tanh(one[i]);
  } else {
    memcpy(action, one, n * sizeof(double));
  }
}
