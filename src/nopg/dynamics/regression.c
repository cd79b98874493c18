/* Regression of one target on its kernels, a few calls in all: what `hyperparameters.py` and
 * `gaussian_process.py` have in torch, where every small call waits for Python's lock beside those
 * of other targets and models.
 *
 * Factors are LAPACK's, products are BLAS's: SciPy's, whose addresses are given. What is large is
 * shared among threads in panels of one size, so that digits do not depend on their number. In rows
 * a lower triangle is what they call an upper one.
 */
#include "shared.h"

#define PANEL 64 /* rows or samples that one thread takes at a time */

typedef struct {
  void (*potrf)(const char *, int *, double *, int *, int *);
  void (*trtri)(const char *, const char *, int *, double *, int *, int *);
  void (*trsm)(const char *, const char *, const char *, const char *, int *, int *, double *,
               double *, int *, double *, int *);
  void (*trmm)(const char *, const char *, const char *, const char *, int *, int *, double *,
               double *, int *, double *, int *);
  void (*gemm)(const char *, const char *, int *, int *, int *, double *, double *, int *, double *,
               int *, double *, double *, int *);
} Lapack;

/* k(x, x') = amplitude^2 exp(-1/2 sum_d ((x_d - x'_d) / scale_d)^2) */
typedef struct {
  const Lapack *lapack;
  int64_t n, d, m; /* samples, inputs, points */
  double amplitude, noise, ratio; /* the last two are variances, of samples and after a projection */
  const double *scales, *x, *y, *points, *wanted; /* (d), (n, d), (n), (m, d), targets there (m) */
  double *found, *second, *parts;                 /* (m, m) or errors, (m, m), (m) */
} Job;

/* Points (n, d) over their scales, side by side, (d, n). */
static void lay_out(const Job *job, const double *x, int64_t n, double *z) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < job->d; k++) z[k * n + i] = x[i * job->d + k] / job->scales[k];
}

/* The kernel of number i of n with `count` of m others from `first` on. */
static void kernels(const Job *job, const double *z, int64_t n, int64_t i, const double *others,
                    int64_t m, int64_t first, int64_t count, double *found) {
  double factor = job->amplitude * job->amplitude;
  for (int64_t j = 0; j < count; j++) found[j] = 0.0;
  for (int64_t k = 0; k < job->d; k++) {
    const double *other = others + k * m + first;
    double here = z[k * n + i];
    for (int64_t j = 0; j < count; j++) found[j] += (other[j] - here) * (other[j] - here);
  }
  for (int64_t j = 0; j < count; j++) found[j] = factor * exp_of(-0.5 * found[j]);
}

/* The Cholesky factor of the covariance of n points at z, (n, n); not 0 if there is none. */
static int factor(const Job *job, const double *z, int64_t n, double *a) {
  int size = n, failed;
  for (int64_t i = 0; i < n; i++) {
    kernels(job, z, n, i, z, n, 0, i + 1, a + i * n);
    memset(a + i * n + i + 1, 0, (n - i - 1) * sizeof(double));
    a[i * n + i] += job->noise;
  }
  job->lapack->potrf("U", &size, a, &size, &failed);
  return failed;
}

/* |error| over its deviation of each sample, predicted from all the others (Rasmussen and Williams
 * 2006, Eq. 5.12): a_i / sqrt(K^-1_ii) with a = K^-1 y. */
int64_t nopg_left_out(const Job *job) {
  int64_t n = job->n;
  double *a = malloc((n * n + (job->d + 2) * n) * sizeof(double)), *z = a + n * n;
  if (!a) return -1;
  double *solved = z + job->d * n, *diagonal = solved + n;
  int size = n, failed;
  lay_out(job, job->x, n, z);
  failed = factor(job, z, n, a);
  if (!failed) job->lapack->trtri("U", "N", &size, a, &size, &failed);
  memset(solved, 0, 2 * n * sizeof(double));
  for (int64_t i = 0; i < n && !failed; i++) {
    const double *row = a + i * n;
    double white = dot(row, job->y, i + 1);
    for (int64_t j = 0; j <= i; j++) {
      solved[j] += white * row[j];
      diagonal[j] += row[j] * row[j];
    }
  }
  for (int64_t j = 0; j < n; j++) job->found[j] = fabs(solved[j]) / sqrt(diagonal[j]);
  free(a);
  return failed;
}

/* What threads share. */
typedef struct {
  const Job *job;
  int64_t rows, columns;
  const double *z, *points; /* laid out, (d, n) and (d, m) */
  double *triangle, *wide, *square; /* (rows, rows), (rows, columns), (rows, rows) */
  const double *white; /* (rows) */
} Shared;

/* The same of points, predicted from the samples. */
static void predict(const void *given, int64_t first, int64_t last) {
  const Shared *s = given;
  const Job *job = s->job;
  double one = 1.0;
  int rows = s->rows, columns = s->columns;
  for (int64_t panel = first; panel < last; panel++) {
    int64_t from = panel * PANEL, left = job->m - from;
    int count = left < PANEL ? left : PANEL;
    double mean[PANEL] = {0}, known[PANEL] = {0}, *wide = s->wide + from;
    for (int64_t i = 0; i < rows; i++)
      kernels(job, s->z, rows, i, s->points, job->m, from, count, wide + i * columns);
    job->lapack->trsm("R", "U", "N", "N", &count, &rows, &one, s->triangle, &rows, wide, &columns);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < count; j++) {
        double white = wide[i * columns + j];
        mean[j] += s->white[i] * white;
        known[j] += white * white;
      }
    for (int64_t j = 0; j < count; j++) {
      double variance = job->amplitude * job->amplitude - known[j];
      variance = (variance > 0.0 ? variance : 0.0) + job->noise;
      job->found[from + j] = fabs(job->wanted[from + j] - mean[j]) / sqrt(variance);
    }
  }
}

static int64_t panels(int64_t count) { return (count + PANEL - 1) / PANEL; }

int64_t nopg_prediction_errors(const Job *job, int64_t n_threads) {
  int64_t n = job->n, m = job->m;
  double *a = malloc((n * n + n * m + job->d * (n + m) + n) * sizeof(double));
  if (!a) return -1;
  double *wide = a + n * n, *z = wide + n * m, *points = z + job->d * n, *white = points + job->d * m;
  lay_out(job, job->x, n, z);
  lay_out(job, job->points, m, points);
  int failed = factor(job, z, n, a);
  for (int64_t i = 0; i < n && !failed; i++)
    white[i] = (job->y[i] - dot(a + i * n, white, i)) / a[i * n + i];
  Shared shared = {job, n, m, z, points, a, wide, NULL, white};
  if (!failed) in_parts(predict, &shared, panels(m), n_threads);
  free(a);
  return failed;
}

/* Kernels of points and samples, whitened by the former's factor. */
static void whiten(const void *given, int64_t first, int64_t last) {
  const Shared *s = given;
  const Job *job = s->job;
  double one = 1.0;
  int rows = s->rows, columns = s->columns;
  for (int64_t panel = first; panel < last; panel++) {
    int64_t from = panel * PANEL, left = job->n - from;
    int count = left < PANEL ? left : PANEL;
    double *wide = s->wide + from;
    for (int64_t i = 0; i < rows; i++)
      kernels(job, s->points, rows, i, s->z, job->n, from, count, wide + i * columns);
    job->lapack->trmm("R", "U", "N", "N", &count, &rows, &one, s->triangle, &rows, wide, &columns);
  }
}

/* Rows of a product of what is wide with itself, up to the diagonal. */
static void square(const void *given, int64_t first, int64_t last) {
  const Shared *s = given;
  double one = 1.0, none = 0.0;
  int rows = s->rows, columns = s->columns;
  for (int64_t panel = first; panel < last; panel++) {
    int64_t from = panel * PANEL, left = rows - from;
    int count = left < PANEL ? left : PANEL, width = from + count;
    s->job->lapack->gemm("T", "N", &width, &count, &columns, &one, s->wide, &columns,
                         s->wide + from * columns, &columns, &none, s->square + from * rows, &rows);
  }
}

/* Columns of the first factor, solved by the second. */
static void solve(const void *given, int64_t first, int64_t last) {
  const Shared *s = given;
  double one = 1.0;
  int rows = s->rows;
  for (int64_t panel = first; panel < last; panel++) {
    int64_t from = panel * PANEL, left = rows - from;
    int count = left < PANEL ? left : PANEL, below = left;
    /* Rows before `from` are 0 there. */
    double *to = s->job->second + from * rows + from, *by = s->square + from * rows + from;
    s->job->lapack->trsm("R", "U", "N", "N", &count, &below, &one, by, &rows, to, &rows);
  }
}

/* The kernel of points' inverse factor, and what it makes of the samples, (m, n). */
static int64_t project(const Job *job, Shared *s, int64_t n_threads) {
  int64_t n = job->n, m = job->m;
  int size = m, failed;
  double *z = malloc((m * (n + m) + job->d * (n + m)) * sizeof(double));
  if (!z) return -1;
  double *points = z + job->d * n, *wide = points + job->d * m;
  *s = (Shared){job, m, n, z, points, job->found, wide, wide + m * n, NULL};
  lay_out(job, job->x, n, z);
  lay_out(job, job->points, m, points);
  failed = factor(job, points, m, job->found);
  if (!failed) job->lapack->trtri("U", "N", &size, job->found, &size, &failed);
  if (!failed) in_parts(whiten, s, panels(n), n_threads);
  return failed;
}

/* Share of the kernel's variance that each point explains beyond those before it, (m). */
int64_t nopg_explained(const Job *job, int64_t n_threads) {
  Shared s = {0};
  int64_t failed = project(job, &s, n_threads);
  for (int64_t i = 0; i < job->m && !failed; i++)
    job->parts[i] = dot(s.wide + i * job->n, s.wide + i * job->n, job->n) / job->n;
  free((void *)s.z);
  return failed;
}

/* Both inverse factors, and coordinates of the samples' targets in an orthonormal basis. */
int64_t nopg_regress(const Job *job, int64_t n_threads) {
  int64_t n = job->n, m = job->m;
  Shared s = {0};
  int64_t failed = project(job, &s, n_threads);
  int size = m, lost = 0;
  if (!failed) {
    in_parts(square, &s, panels(m), n_threads);
    for (int64_t i = 0; i < m; i++) s.square[i * m + i] += job->ratio;
    job->lapack->potrf("U", &size, s.square, &size, &lost);
    failed = lost;
  }
  if (!failed) {
    memcpy(job->second, job->found, m * m * sizeof(double));
    in_parts(solve, &s, panels(m), n_threads);
    for (int64_t i = 0; i < m; i++) { /* what is wide times y, solved */
      double white = dot(s.wide + i * n, job->y, n);
      job->parts[i] = (white - dot(s.square + i * m, job->parts, i)) / s.square[i * m + i];
    }
  }
  free((void *)s.z);
  return failed;
}
