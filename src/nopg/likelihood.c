/* The marginal likelihood of a Gaussian process and its slopes in one call, as `likelihood.py` has
 * them without a compiler (Rasmussen and Williams 2006, Eqs. 5.8 and 5.9).
 *
 * With the Cholesky factor L of the covariance and U the transpose of its inverse, all that takes
 * long are products of rows: of L and L for L itself, of L and U for U, of U and U for the inverse.
 * Four rows meet four others at a time, so that what is loaded is used four times.
 */
#include "shared.h"

#define TILE 4
#ifdef __AVX__
#define BYTES 32
#else
#define BYTES 16
#endif
#define EACH (int64_t)(BYTES / sizeof(double)) /* no more than TILE */
typedef double Row __attribute__((vector_size(BYTES), aligned(8), may_alias));

typedef struct {
  int64_t n, d, is_linear; /* whether 1 + x x' is added to the kernel */
  double jitter;
  const double *x, *y; /* (n, d) and (n,) */
  const double *logs;  /* of scales, amplitude and noise, (d + 2) */
  double *found;       /* minus the log likelihood, and its slopes by these, (d + 3) */
} Job;

/* sum_k a_ik b_jk from `first` to `last`, multiples of TILE, of TILE rows each. */
static inline void products(const double *a, const double *b, int64_t n, int64_t first,
                            int64_t last, double found[TILE][TILE]) {
  Row sums[TILE][TILE] = {0};
  for (int64_t k = first; k < last; k += EACH) {
    Row left[TILE], right[TILE];
    for (int i = 0; i < TILE; i++) {
      left[i] = *(const Row *)(a + i * n + k);
      right[i] = *(const Row *)(b + i * n + k);
    }
    for (int i = 0; i < TILE; i++)
      for (int j = 0; j < TILE; j++) sums[i][j] += left[i] * right[j];
  }
  for (int i = 0; i < TILE; i++)
    for (int j = 0; j < TILE; j++) {
      Row sum = sums[i][j];
      found[i][j] = EACH == 2 ? sum[0] + sum[1] : (sum[0] + sum[2 % EACH]) + (sum[1] + sum[3 % EACH]);
    }
}

/* The lower triangle of a matrix becomes its Cholesky factor; 0 if it has none. */
static int factorise(int64_t n, double *a) {
  double t[TILE][TILE];
  for (int64_t J = 0; J < n; J += TILE)
    for (int64_t I = J; I < n; I += TILE) {
      products(a + I * n, a + J * n, n, 0, J, t);
      for (int i = 0; i < TILE; i++) {
        double *own = a + (I + i) * n + J;
        int64_t most = I == J ? i : TILE - 1;
        for (int64_t j = 0; j <= most; j++) {
          const double *other = a + (J + j) * n + J;
          double left = own[j] - t[i][j];
          for (int64_t k = 0; k < j; k++) left -= own[k] * other[k];
          if (I == J && j == i) {
            if (!(left > 0.0)) return 0;
            own[j] = sqrt(left);
          } else {
            own[j] = left / other[j];
          }
        }
      }
    }
  return 1;
}

/* The transpose of the inverse of a lower triangle, in the upper one of u; what is below is 0. */
static void invert(int64_t n, const double *lower, double *u) {
  double t[TILE][TILE];
  memset(u, 0, n * n * sizeof(double));
  for (int64_t I = 0; I < n; I += TILE)
    for (int64_t J = 0; J <= I; J += TILE) {
      products(lower + I * n, u + J * n, n, J, I, t);
      for (int i = 0; i < TILE; i++) {
        const double *own = lower + (I + i) * n + I;
        int64_t most = I == J ? i : TILE - 1;
        for (int64_t j = 0; j <= most; j++) {
          double *to = u + (J + j) * n + I, sum = (I == J && i == j) - t[i][j];
          for (int64_t k = 0; k < i; k++) sum -= own[k] * to[k];
          to[i] = sum / own[i];
        }
      }
    }
}

/* Not 0 if there is no memory; where the covariance is not positive all that is found is NaN. */
int64_t nopg_likelihood(const Job *job) {
  const int64_t d = job->d, rows = job->n, n = (rows + 7) / 8 * 8; /* more of them are on their own */
  double *memory = calloc(3 * n * n + (d + 5) * n, sizeof(double));
  if (!memory) return 1;
  double *smooth = memory, *a = smooth + n * n, *u = a + n * n, *z = u + n * n;
  double *norms = z + d * n, *white = norms + n, *solved = white + n, *w = solved + n;
  double *slopes = job->found + 1, noise = exp(2.0 * job->logs[d + 1]), value = 0.0;
  for (int64_t k = 0; k < d; k++) {
    double factor = exp(-job->logs[k]);
    for (int64_t i = 0; i < rows; i++) {
      z[k * n + i] = job->x[i * d + k] * factor;
      norms[i] -= 0.5 * z[k * n + i] * z[k * n + i];
    }
  }
  for (int64_t i = 0; i < n; i++) {
    double *own = smooth + i * n;
    for (int64_t j = 0; i < rows && j <= i; j++)
      own[j] = 2.0 * job->logs[d] + norms[i] + norms[j];
    for (int64_t k = 0; i < rows && k < d; k++)
      for (int64_t j = 0; j <= i; j++) own[j] += z[k * n + i] * z[k * n + j];
    for (int64_t j = 0; i < rows && j <= i; j++) own[j] = exp_of(own[j]);
    memcpy(a + i * n, own, (i + 1) * sizeof(double));
    for (int64_t j = 0; job->is_linear && i < rows && j <= i; j++) a[i * n + j] += 1.0;
    for (int64_t k = 0; job->is_linear && i < rows && k < d; k++) {
      double here = job->x[i * d + k] * exp(job->logs[k]);
      for (int64_t j = 0; j <= i; j++) a[i * n + j] += here * z[k * n + j];
    }
    a[i * n + i] += i < rows ? noise + job->jitter : 1.0;
  }
  if (!factorise(n, a)) {
    for (int64_t k = 0; k < d + 3; k++) job->found[k] = NAN;
    free(memory);
    return 0;
  }
  invert(n, a, u);
  for (int64_t i = 0; i < rows; i++) {
    value += log(a[i * n + i]);
    for (int64_t j = i; j < n; j++) white[j] += job->y[i] * u[i * n + j];
  }
  for (int64_t i = 0; i < rows; i++) {
    solved[i] = dot(u + i * n + i, white + i, n - i);
    value += 0.5 * job->y[i] * solved[i];
  }
  double t[TILE][TILE]; /* of the inverse, in place of L */
  for (int64_t I = 0; I < n; I += TILE)
    for (int64_t J = 0; J <= I; J += TILE) {
      products(u + I * n, u + J * n, n, I, n, t);
      for (int i = 0; i < TILE; i++) memcpy(a + (I + i) * n + J, t[i], sizeof(t[i]));
    }
  double total = 0.0, trace = 0.0;
  for (int64_t k = 0; k < d + 2; k++) slopes[k] = 0.0;
  for (int64_t i = 0; i < rows; i++) {
    int64_t width = (i + 8) / 8 * 8;
    for (int64_t j = 0; j < width; j++)
      w[j] = j < i ? (solved[i] * solved[j] - a[i * n + j]) * smooth[i * n + j] : 0.0;
    double own = solved[i] * solved[i] - a[i * n + i], some[8] = {0};
    for (int64_t j = 0; j < width; j += 8)
      for (int l = 0; l < 8; l++) some[l] += w[j + l];
    trace += own;
    total += own * smooth[i * n + i] + 2.0 * sum8(some);
    for (int64_t k = 0; k < d; k++) {
      const double *at = z + k * n, here = at[i];
      double sums[8] = {0};
      for (int64_t j = 0; j < width; j += 8)
        for (int l = 0; l < 8; l++)
          sums[l] += w[j + l] * ((at[j + l] - here) * (at[j + l] - here));
      slopes[k] -= sum8(sums);
    }
  }
  slopes[d] = -total;
  slopes[d + 1] = -noise * trace;
  job->found[0] = value;
  free(memory);
  return 0;
}
