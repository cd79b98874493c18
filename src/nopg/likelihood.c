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

/* What the threads that find one likelihood share; whatever their number, a row is one thread's. */
typedef struct {
  const Job *job;
  Crew crew;
  int64_t n; /* rows; more of them than there are are on their own */
  int is_positive;
  double *smooth, *a, *u; /* (n, n): kernel, factor and then inverse, transpose of its inverse */
  double *z, *norms;      /* inputs over scales, (d, n), and minus half their squares, (n) */
  double *white, *solved; /* (n) */
  double *partial;        /* of each row, (n, d + 2) */
} Shared;

/* Rows of the kernel and of the covariance. */
static void cover(const Shared *s, int64_t i) {
  const Job *job = s->job;
  int64_t n = s->n, rows = job->n;
  double *own = s->smooth + i * n, *a = s->a + i * n, noise = exp(2.0 * job->logs[job->d + 1]);
  for (int64_t j = 0; i < rows && j <= i; j++)
    own[j] = 2.0 * job->logs[job->d] + s->norms[i] + s->norms[j];
  for (int64_t k = 0; i < rows && k < job->d; k++)
    for (int64_t j = 0; j <= i; j++) own[j] += s->z[k * n + i] * s->z[k * n + j];
  for (int64_t j = 0; i < rows && j <= i; j++) own[j] = exp_of(own[j]);
  memcpy(a, own, (i + 1) * sizeof(double));
  for (int64_t j = 0; job->is_linear && i < rows && j <= i; j++) a[j] += 1.0;
  for (int64_t k = 0; job->is_linear && i < rows && k < job->d; k++) {
    double here = job->x[i * job->d + k] * exp(job->logs[k]);
    for (int64_t j = 0; j <= i; j++) a[j] += here * s->z[k * n + j];
  }
  a[i] += i < rows ? noise + job->jitter : 1.0;
}

/* Rows from I on of the Cholesky factor, columns from J on; 0 if there is none. */
static int factorise(int64_t n, double *a, int64_t I, int64_t J) {
  double t[TILE][TILE];
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
  return 1;
}

/* Rows from J on of the transpose of the inverse of a lower triangle. */
static void invert(int64_t n, const double *lower, double *u, int64_t J) {
  double t[TILE][TILE];
  for (int64_t I = J; I < n; I += TILE) {
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

/* What row i adds to the slopes by scales, amplitude and noise; w is (n). */
static void slopes_of(const Shared *s, int64_t i, double *w) {
  int64_t n = s->n, d = s->job->d, width = (i + 8) / 8 * 8;
  const double *smooth = s->smooth + i * n, *inverse = s->a + i * n, *solved = s->solved;
  double *found = s->partial + i * (d + 2);
  for (int64_t j = 0; j < width; j++)
    w[j] = j < i ? (solved[i] * solved[j] - inverse[j]) * smooth[j] : 0.0;
  double own = solved[i] * solved[i] - inverse[i], some[8] = {0};
  for (int64_t j = 0; j < width; j += 8)
    for (int l = 0; l < 8; l++) some[l] += w[j + l];
  for (int64_t k = 0; k < d; k++) {
    const double *at = s->z + k * n, here = at[i];
    double sums[8] = {0};
    for (int64_t j = 0; j < width; j += 8)
      for (int l = 0; l < 8; l++) sums[l] += w[j + l] * ((at[j + l] - here) * (at[j + l] - here));
    found[k] = sum8(sums);
  }
  found[d] = own * smooth[i] + 2.0 * sum8(some);
  found[d + 1] = own;
}

/* Thread number `first` has every so many rows, four at a time. */
static void part(const void *given, int64_t first, int64_t last) {
  Shared *s = (Shared *)given;
  Crew *crew = &s->crew;
  int64_t n = s->n, rows = s->job->n, size = crew_size(crew), step = TILE * size;
  for (int64_t I = TILE * first; I < n; I += step)
    for (int64_t i = I; i < I + TILE; i++) cover(s, i);
  for (int64_t J = 0; J < n; J += TILE) {
    if (J / TILE % size == first && s->is_positive) s->is_positive = factorise(n, s->a, J, J);
    meet(crew);
    for (int64_t I = J + TILE; I < n && s->is_positive; I += TILE)
      if (I / TILE % size == first) factorise(n, s->a, I, J);
    meet(crew);
  }
  if (!s->is_positive) return;
  for (int64_t J = TILE * first; J < n; J += step) invert(n, s->a, s->u, J);
  meet(crew);
  if (!first) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = i; j < n; j++) s->white[j] += s->job->y[i] * s->u[i * n + j];
    for (int64_t i = 0; i < rows; i++) {
      s->solved[i] = dot(s->u + i * n + i, s->white + i, n - i);
      s->job->found[0] += log(s->a[i * n + i]) + 0.5 * s->job->y[i] * s->solved[i];
    }
  }
  meet(crew);
  double t[TILE][TILE], w[n]; /* the inverse, in place of L */
  for (int64_t I = TILE * first; I < n; I += step)
    for (int64_t J = 0; J <= I; J += TILE) {
      products(s->u + I * n, s->u + J * n, n, I, n, t);
      for (int i = 0; i < TILE; i++) memcpy(s->a + (I + i) * n + J, t[i], sizeof(t[i]));
    }
  for (int64_t I = TILE * first; I < rows; I += step)
    for (int64_t i = I; i < I + TILE && i < rows; i++) slopes_of(s, i, w);
}

/* Not 0 if there is no memory; where the covariance is not positive all that is found is NaN. */
int64_t nopg_likelihood(const Job *job, int64_t n_threads) {
  int64_t d = job->d, n = (job->n + 7) / 8 * 8;
  double *memory = calloc(3 * n * n + (2 * d + 5) * n, sizeof(double));
  if (!memory) return 1;
  Shared s = {.job = job, .n = n, .is_positive = 1, .smooth = memory};
  s.a = s.smooth + n * n;
  s.u = s.a + n * n;
  s.z = s.u + n * n;
  s.norms = s.z + d * n;
  s.white = s.norms + n;
  s.solved = s.white + n;
  s.partial = s.solved + n;
  for (int64_t k = 0; k < d; k++) {
    double factor = exp(-job->logs[k]);
    for (int64_t i = 0; i < job->n; i++) {
      s.z[k * n + i] = job->x[i * d + k] * factor;
      s.norms[i] -= 0.5 * s.z[k * n + i] * s.z[k * n + i];
    }
  }
  for (int64_t k = 0; k < d + 3; k++) job->found[k] = 0.0;
  in_step(part, &s, &s.crew, n_threads);
  for (int64_t i = 0; i < job->n; i++)
    for (int64_t k = 0; k < d + 2; k++) job->found[1 + k] -= s.partial[i * (d + 2) + k];
  job->found[2 + d] *= exp(2.0 * job->logs[d + 1]);
  for (int64_t k = 0; k < d + 3 && !s.is_positive; k++) job->found[k] = NAN;
  free(memory);
  return 0;
}
