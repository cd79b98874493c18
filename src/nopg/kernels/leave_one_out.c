/* The leave-one-out error of Nadaraya-Watson regression and its slopes by log bandwidths, query by
 * query: what `_Regression` of `bandwidths.py` computes in arrays that no cache holds.
 */
#include "shared.h"

#define SIDE 16 /* candidates that are summed up side by side; their number is a multiple */

typedef struct {
  int64_t m, c, d, p;       /* queries, candidates, columns of inputs and of targets */
  int64_t n_lists;          /* 1 if all queries have the same candidates, or m */
  const real *squares;      /* (d, m, c), of how far apart they are */
  const real *blocked;      /* (m, c), 0 or -inf */
  const real *known;        /* (n_lists, p, c), targets of the candidates */
  const real *targets;      /* (m, p) */
  const real *precision;    /* (d) */
  real *errors, *slopes;    /* (m), (m, d) */
} Regression;

typedef struct {
  const Regression *regression;
  atomic_int is_short; /* of memory */
} Job;

static real sum16(const real *x) {
  real total = 0;
  for (int l = 0; l < SIDE; l++) total += x[l];
  return total;
}

/* Sum of products of two rows. */
static real product(const real *x, const real *y, int64_t c) {
  real sums[SIDE] = {0};
  for (int64_t j = 0; j < c; j += SIDE)
    for (int l = 0; l < SIDE; l++) sums[l] += x[j + l] * y[j + l];
  return sum16(sums);
}

static void predict(const void *given, int64_t first, int64_t last) {
  Job *job = (Job *)given;
  const Regression *r = job->regression;
  int64_t m = r->m, c = r->c, d = r->d, p = r->p;
  real *weights = malloc((2 * c + 2 * p) * sizeof(real));
  if (!weights) {
    atomic_store(&job->is_short, 1);
    return;
  }
  real *towards = weights + c, *predicted = towards + c, *residual = predicted + p;
  for (int64_t i = first; i < last; i++) {
    const real *known = r->known + (r->n_lists > 1 ? i * p * c : 0);
    real most[SIDE], sums[SIDE] = {0}, top, error = 0, mean = 0;
    for (int l = 0; l < SIDE; l++) most[l] = -INFINITY;
    memset(weights, 0, c * sizeof(real));
    for (int64_t k = 0; k < d; k++) {
      const real *squares = r->squares + (k * m + i) * c, half = (real)0.5 * r->precision[k];
      for (int64_t j = 0; j < c; j++) weights[j] += half * squares[j];
    }
    for (int64_t j = 0; j < c; j += SIDE)
      for (int l = 0; l < SIDE; l++) {
        real x = r->blocked[i * c + j + l] - weights[j + l];
        weights[j + l] = x;
        most[l] = x > most[l] ? x : most[l];
      }
    top = most[0];
    for (int l = 1; l < SIDE; l++) top = most[l] > top ? most[l] : top;
    for (int64_t j = 0; j < c; j += SIDE)
      for (int l = 0; l < SIDE; l++) {
        weights[j + l] = exp_of(weights[j + l] - top);
        sums[l] += weights[j + l];
      }
    real whole = 1 / sum16(sums);
    for (int64_t k = 0; k < p; k++) {
      predicted[k] = product(weights, known + k * c, c) * whole;
      residual[k] = r->targets[i * p + k] - predicted[k];
      error += residual[k] * residual[k];
      mean += predicted[k] * residual[k];
    }
    for (int64_t j = 0; j < c; j++) towards[j] = -mean;
    for (int64_t k = 0; k < p; k++)
      for (int64_t j = 0; j < c; j++) towards[j] += residual[k] * known[k * c + j];
    for (int64_t j = 0; j < c; j++) towards[j] *= weights[j] * whole;
    for (int64_t k = 0; k < d; k++)
      r->slopes[i * d + k] = product(towards, r->squares + (k * m + i) * c, c);
    r->errors[i] = error;
  }
  free(weights);
}

/* Not 0 where there is no memory. */
int64_t nopg_leave_one_out(const Regression *regression, int64_t n_threads) {
  Job job = {regression, 0};
  in_parts(predict, &job, regression->m, n_threads);
  return job.is_short;
}
