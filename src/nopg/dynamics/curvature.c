/* The nearest matrices that bend nowhere upwards: what `_downwards` of `curvature.py` has in torch.
 * Matrices are independent, and so are their digits.
 */
#include "parts.h"

#include <math.h>

typedef struct {
  void (*potrf)(const char *, int *, double *, int *, int *);
  void (*syev)(const char *, const char *, int *, double *, int *, double *, double *, int *, int *);
} Lapack;

typedef struct {
  const Lapack *lapack;
  int64_t n, d;
  double *matrices; /* (n, d, d), symmetric; to be changed */
  int64_t *failed;  /* one number */
} Job;

static void bend(const void *given, int64_t first, int64_t last) {
  const Job *job = given;
  int64_t d = job->d, size = d * d;
  int n = d, n_work = 34 * d, failed;
  double copy[size], values[d], work[n_work];
  for (int64_t k = first; k < last; k++) {
    double *a = job->matrices + k * size;
    for (int64_t i = 0; i < size; i++) copy[i] = -a[i];
    job->lapack->potrf("U", &n, copy, &n, &failed);
    if (!failed) continue; /* as it should be */
    memcpy(copy, a, sizeof(copy));
    job->lapack->syev("V", "U", &n, copy, &n, values, work, &n_work, &failed);
    if (failed) *job->failed = 1;
    memset(a, 0, sizeof(copy));
    for (int64_t l = 0; l < d && values[l] < 0.0; l++) /* in order; vectors are in rows */
      for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) a[i * d + j] += values[l] * copy[l * d + i] * copy[l * d + j];
  }
}

/* Not 0 where values of some matrix were not found. */
int64_t nopg_downwards(const Job *job, int64_t n_threads) {
  int64_t most = job->n * job->d / 200 + 1;
  in_parts(bend, job, job->n, most < n_threads ? most : n_threads);
  return *job->failed;
}
