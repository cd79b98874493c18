/* Rows of P and their slopes, row by row: what `nadaraya_watson.py` and `matched.py` do
 * with whole arrays. A row is computed by itself: its digits do not depend on how rows
 * are shared among threads.
 */
#include "shared.h"

#define REACH 8.0
#define STEEPNESS 12
#define RIDGE 1e-9
#define MAX_STEPS 40
#define LONGEST_STEP 4.0
#define CHUNK 256 /* entries of a row that are looked at in one go */

/* Softmax of k logits in place; the log of their sum. */
static double softmax(real *x, int64_t k) {
  real total[8] = {0}, rest = 0, peak = x[0];
  int64_t j = 0;
  Lanes top[] = {peak - (Lanes){0}, peak - (Lanes){0}};
  for (; j + 2 * LANES <= k; j += 2 * LANES) {
    top[0] = larger(*(Lanes *)(x + j), top[0]);
    top[1] = larger(*(Lanes *)(x + j + LANES), top[1]);
  }
  for (; j < k; j++) peak = x[j] > peak ? x[j] : peak;
  top[0] = larger(top[0], top[1]);
  for (int l = 0; l < LANES; l++) peak = top[0][l] > peak ? top[0][l] : peak;
  for (j = 0; j < k; j++) x[j] = exp_of(x[j] - peak);
  for (j = 0; j + 8 <= k; j += 8)
    for (int l = 0; l < 8; l++) total[l] += x[j + l];
  for (; j < k; j++) rest += x[j];
  double mass = sum8(total) + rest;
  real share = 1.0 / mass;
  for (j = 0; j < k; j++) x[j] *= share;
  return peak + log(mass);
}

/* A block of rows: m of n_queries, k samples each. */
typedef struct {
  int64_t m, k, is_complete; /* `listed` is (d_a, k), the same for all */
  const real *log_psi;       /* (m, k) */
  const real *listed;        /* actions of the samples, (d_a, m, k) */
  const int64_t *rows;       /* which queries these are, (m) */
  const real *log_dropped;   /* bound on the mass they do without, (m) */
} Block;

/* Kernel rows of all blocks, n_draws actions at each query. */
typedef struct {
  int64_t n_rows, n_draws, d_a, n_queries;
  int64_t is_own;       /* `precision` is (n_queries, d_a), else (d_a) */
  const Block *blocks;
  const real *taken;    /* actions at the queries, (n_draws, n_queries, d_a) */
  const real *precision; /* one over twice a variance */
  real *weights;        /* (n_draws, m, k), block after block */
  real *log_mass, *dropped; /* (n_draws, n_queries); share of what rows do without */
} KernelRows;

static void kernel_rows(const void *job, int64_t first, int64_t last) {
  const KernelRows *all = job;
  const Block *b = all->blocks;
  int64_t d_a = all->d_a, i = first;
  real *weights = all->weights;
  for (; first < last; first++, i++) {
    for (; i >= b->m; b++) { /* where row number `first` is */
      i -= b->m;
      weights += all->n_draws * b->m * b->k;
    }
    int64_t m = b->m, k = b->k, row = b->rows[i];
    for (int64_t draw = 0; draw < all->n_draws; draw++) {
      int64_t at = draw * all->n_queries + row;
      real *w = weights + (draw * m + i) * k;
      const real *a = all->taken + at * d_a;
      const real *precision = all->precision + all->is_own * row * d_a;
      memcpy(w, b->log_psi + i * k, k * sizeof(real));
      for (int64_t d = 0; d < d_a; d++) {
        const real *listed = b->listed + (b->is_complete ? d : d * m + i) * k;
        real there = a[d], scale = precision[d];
        for (int64_t j = 0; j < k; j++)
          w[j] -= (listed[j] - there) * (listed[j] - there) * scale;
      }
      double log_mass = softmax(w, k);
      all->log_mass[at] = log_mass;
      all->dropped[at] = 1.0 / (1.0 + exp(log_mass - b->log_dropped[i]));
    }
  }
}

void nopg_kernel_rows(const KernelRows *rows, int64_t n_threads) {
  in_parts(kernel_rows, rows, rows->n_rows, n_threads);
}

/* Covariances of q with the columns of x under sparse rows. */
typedef struct {
  int64_t m, d;
  const real *values;
  const int32_t *begins, *ends, *columns;
  const real *q, *x; /* x is (n, d) */
  real *found;                /* (m, d) */
} Covariances;

static void covariances(const void *job, int64_t first, int64_t last) {
  const Covariances *c = job;
  int64_t d = c->d;
  for (int64_t i = first; i < last; i++) {
    /* About the first q, in one pass: sum w q x - (sum w q) (sum w x). */
    int64_t begin = c->begins[i], end = c->ends[i];
    double origin = begin < end ? c->q[c->columns[begin]] : 0.0, mean = 0.0;
    double beside[d], both[d]; /* sum w x, sum w q x */
    for (int64_t a = 0; a < d; a++) beside[a] = both[a] = 0;
    for (int64_t start = begin; start < end; start += CHUNK) {
      int64_t count = end - start < CHUNK ? end - start : CHUNK, whole_fours = count & ~3;
      const int32_t *columns = c->columns + start;
      const real *values = c->values + start;
      double moved[CHUNK], sum[4] = {0};
      for (int64_t j = 0; j < count; j++) moved[j] = values[j] * (c->q[columns[j]] - origin);
      for (int64_t j = 0; j < whole_fours; j += 4)
        for (int l = 0; l < 4; l++) sum[l] += moved[j + l];
      for (int64_t j = whole_fours; j < count; j++) sum[0] += moved[j];
      mean += (sum[0] + sum[1]) + (sum[2] + sum[3]);
      for (int64_t a = 0; a < d; a++) {
        double total[4] = {0}, plain[4] = {0};
        for (int64_t j = 0; j < whole_fours; j += 4)
          for (int l = 0; l < 4; l++) {
            double x = c->x[columns[j + l] * d + a];
            total[l] += moved[j + l] * x;
            plain[l] += values[j + l] * x;
          }
        for (int64_t j = whole_fours; j < count; j++) {
          total[0] += moved[j] * c->x[columns[j] * d + a];
          plain[0] += (double)values[j] * c->x[columns[j] * d + a];
        }
        both[a] += (total[0] + total[1]) + (total[2] + total[3]);
        beside[a] += (plain[0] + plain[1]) + (plain[2] + plain[3]);
      }
    }
    for (int64_t a = 0; a < d; a++) c->found[i * d + a] = both[a] - mean * beside[a];
  }
}

void nopg_covariances(const Covariances *job, int64_t n_threads) {
  in_parts(covariances, job, job->m, n_threads);
}

/* Rows of several actions averaged, with a share of each in each row. */
typedef struct {
  int64_t m, count; /* rows, actions */
  const int32_t *begins, *ends;
  const real *shares;       /* (m, count) */
  const real *const *parts; /* (count), the entries of each action's rows */
  real *found;
} Mixture;

static void mix(const void *job, int64_t first, int64_t last) {
  const Mixture *x = job;
  for (int64_t i = first; i < last; i++)
    for (int64_t a = 0; a < x->count; a++) {
      real share = x->shares[i * x->count + a];
      for (int64_t e = x->begins[i]; e < x->ends[i]; e++)
        x->found[e] = (a ? x->found[e] : 0) + share * x->parts[a][e];
    }
}

void nopg_mixed_rows(const Mixture *job, int64_t n_threads) {
  in_parts(mix, job, job->m, n_threads);
}

/* Matched rows of a block. A state is theta (d), its derivative by the action (d, d_a),
 * and the action (d_a), in bandwidths. */
typedef struct {
  int64_t m, k, d, d_a;
  double accuracy;
  const real *base;   /* log of psi_j exp(-|a_j|^2 / 2), (m, k) */
  const real *g;      /* offsets and actions in bandwidths, (m, d, k) */
  const real *taken;  /* actions at the queries in bandwidths, (m, d_a) */
  const real *start;  /* states of rows close by, (m, d + d d_a + d_a), or null */
  real *weights;      /* (m, k) */
  real *state;        /* like `start` */
  real *log_mass, *left, *displacement; /* (m) */
} MatchedBlock;

typedef struct {
  double dual, left, log_mass;
  double *theta, *step, *offset; /* (d) */
  double *curvature, *bend;      /* (d, d) */
} Row;

/* x with A x = b for a positive definite A, (d, d). */
static void eliminate(int64_t d, const double *A, const double *b, double *x) {
  double U[d * d];
  memcpy(U, A, sizeof U);
  memmove(x, b, d * sizeof(double));
  for (int64_t p = 0; p < d; p++)
    for (int64_t i = p + 1; i < d; i++) {
      double factor = U[i * d + p] / U[p * d + p];
      for (int64_t j = p + 1; j < d; j++) U[i * d + j] -= factor * U[p * d + j];
      x[i] -= factor * x[p];
    }
  for (int64_t p = d - 1; p >= 0; p--) {
    for (int64_t j = p + 1; j < d; j++) x[p] -= U[p * d + j] * x[j];
    x[p] /= U[p * d + p];
  }
}

/* The row at row->theta, and what Newton's method needs of it. */
static void evaluate(const MatchedBlock *b, int64_t i, const double *plain, Row *row) {
  int64_t d = b->d, k = b->k;
  const real *g = b->g + i * d * k;
  real *w = b->weights + i * k;
  double tilt[d], mean[d], slope[d], square = 0.0, along = 0.0;
  double second[d * d];
  memcpy(w, b->base + i * k, k * sizeof(real));
  for (int64_t a = 0; a < d; a++) {
    real theta = row->theta[a];
    for (int64_t j = 0; j < k; j++) w[j] += theta * g[a * k + j];
  }
  row->log_mass = softmax(w, k);
  memset(second, 0, sizeof second);
  for (int64_t a = 0; a < d; a++) {
    mean[a] = dot(w, g + a * k, k);
    real weighted[CHUNK];
    for (int64_t start = 0; start < k; start += CHUNK) {
      int64_t count = k - start < CHUNK ? k - start : CHUNK;
      for (int64_t j = 0; j < count; j++) weighted[j] = w[start + j] * g[a * k + start + j];
      for (int64_t c = a; c < d; c++)
        second[a * d + c] += dot(weighted, g + c * k + start, count);
    }
    row->offset[a] = mean[a] - plain[a];
    tilt[a] = row->theta[a] - plain[a];
    square += tilt[a] * tilt[a];
    along += row->theta[a] * plain[a];
  }
  /* The wall: its slope per tilt, and its curvature. */
  double steep = pow(square / (REACH * REACH), 0.5 * STEEPNESS - 1.0) / REACH;
  double radial = square > 0.0 ? (STEEPNESS - 2.0) * steep / square : 0.0;
  for (int64_t a = 0; a < d; a++)
    for (int64_t c = a; c < d; c++) {
      double bend = radial * tilt[a] * tilt[c];
      double covariance = second[a * d + c] - mean[a] * mean[c];
      if (a == c) {
        bend += steep + RIDGE;
        covariance += 10.0 * EPSILON * second[a * d + c]; /* what rounding may have taken */
      }
      row->bend[a * d + c] = row->bend[c * d + a] = bend;
      row->curvature[a * d + c] = row->curvature[c * d + a] = covariance + bend;
    }
  row->dual = row->log_mass - along + steep * square / STEEPNESS;
  row->left = 0.0;
  for (int64_t a = 0; a < d; a++) slope[a] = row->offset[a] + steep * tilt[a];
  eliminate(d, row->curvature, slope, row->step);
  for (int64_t a = 0; a < d; a++) row->left += slope[a] * row->step[a];
  row->left = row->left > 0.0 ? sqrt(row->left) : 0.0;
}

/* A Newton step, drawn back while the dual does not fall. */
static void improve(const MatchedBlock *b, int64_t i, const double *plain, Row *row) {
  int64_t d = b->d;
  double from[d], step[d], dual = row->dual, square = 0.0, share = 1.0;
  double rounding = 10.0 * EPSILON > 1e-12 ? 10.0 * EPSILON : 1e-12;
  memcpy(from, row->theta, sizeof from);
  for (int64_t a = 0; a < d; a++) square += row->step[a] * row->step[a];
  double length = sqrt(square);
  for (int64_t a = 0; a < d; a++)
    step[a] = row->step[a] * (length > LONGEST_STEP ? LONGEST_STEP / length : 1.0);
  for (int64_t n = 0; n < MAX_STEPS; n++, share *= 0.25) {
    for (int64_t a = 0; a < d; a++) row->theta[a] = from[a] - share * step[a];
    evaluate(b, i, plain, row);
    if (row->dual <= dual + rounding * (1.0 + fabs(dual))) return;
  }
}

static void matched_rows(const void *job, int64_t first, int64_t last) {
  const MatchedBlock *b = job;
  int64_t d = b->d, d_a = b->d_a, d_s = d - d_a, width = d + d * d_a + d_a;
  double theta[d], step[d], offset[d], curvature[d * d], bend[d * d], plain[d];
  double accuracy = b->accuracy > 100.0 * EPSILON ? b->accuracy : 100.0 * EPSILON;
  for (int64_t i = first; i < last; i++) {
    Row row = {0, 0, 0, theta, step, offset, curvature, bend};
    const real *taken = b->taken + i * d_a;
    for (int64_t c = 0; c < d; c++) theta[c] = plain[c] = c < d_s ? 0.0 : taken[c - d_s];
    if (b->start) { /* where theta goes, to first order, with the action */
      const real *start = b->start + i * width;
      for (int64_t c = 0; c < d; c++) {
        theta[c] = start[c];
        for (int64_t a = 0; a < d_a; a++)
          theta[c] += start[d + c * d_a + a] * (taken[a] - start[d + d * d_a + a]);
      }
    }
    evaluate(b, i, plain, &row);
    for (int64_t n = 0; n < MAX_STEPS && row.left > accuracy; n++) improve(b, i, plain, &row);
    real *state = b->state + i * width;
    double square = 0.0, norm = 0.0, rhs[d];
    for (int64_t c = 0; c < d; c++) {
      state[c] = theta[c];
      square += offset[c] * offset[c];
      norm += plain[c] * plain[c];
    }
    for (int64_t a = 0; a < d_a; a++) { /* (C + H) x = (I + H) e_a */
      for (int64_t c = 0; c < d; c++) rhs[c] = bend[c * d + d_s + a];
      rhs[d_s + a] += 1.0;
      eliminate(d, curvature, rhs, rhs);
      for (int64_t c = 0; c < d; c++) state[d + c * d_a + a] = rhs[c];
      state[d + d * d_a + a] = taken[a];
    }
    /* The mass is that of the kernel: a tilt only moves where it is looked from. */
    b->log_mass[i] = row.log_mass - 0.5 * norm;
    b->left[i] = 0.5 * row.left;
    b->displacement[i] = sqrt(square);
  }
}

void nopg_matched_rows(const MatchedBlock *rows, int64_t n_threads) {
  in_parts(matched_rows, rows, rows->m, n_threads);
}

/* d (E q)_i / d a_i of matched rows. */
typedef struct {
  int64_t m, k, d, d_a;
  const real *weights, *g;
  const int32_t *columns; /* (m, k), or null where every sample is listed */
  const real *state, *q, *bandwidths;
  real *slopes; /* (m, d_a) */
} MatchedSlopes;

static void matched_slopes(const void *job, int64_t first, int64_t last) {
  const MatchedSlopes *s = job;
  int64_t k = s->k, d = s->d, d_a = s->d_a, width = d + d * d_a + d_a;
  for (int64_t i = first; i < last; i++) {
    const real *w = s->weights + i * k, *g = s->g + i * d * k, *state = s->state + i * width;
    const int32_t *columns = s->columns ? s->columns + i * k : NULL;
    real mean = 0, covariance[d], beside[CHUNK];
    for (int64_t c = 0; c < d; c++) covariance[c] = 0;
    for (int pass = 0; pass < 2; pass++) /* the mean of q, then what differs from it */
      for (int64_t start = 0; start < k; start += CHUNK) {
        int64_t count = k - start < CHUNK ? k - start : CHUNK;
        for (int64_t j = 0; j < count; j++)
          beside[j] = s->q[columns ? columns[start + j] : start + j];
        if (!pass) {
          mean += dot(w + start, beside, count);
          continue;
        }
        for (int64_t j = 0; j < count; j++) beside[j] = w[start + j] * (beside[j] - mean);
        for (int64_t c = 0; c < d; c++)
          covariance[c] += dot(beside, g + c * k + start, count);
      }
    for (int64_t a = 0; a < d_a; a++) {
      real slope = 0;
      for (int64_t c = 0; c < d; c++) slope += covariance[c] * state[d + c * d_a + a];
      s->slopes[i * d_a + a] = slope / s->bandwidths[a];
    }
  }
}

void nopg_matched_slopes(const MatchedSlopes *slopes, int64_t n_threads) {
  in_parts(matched_slopes, slopes, slopes->m, n_threads);
}
