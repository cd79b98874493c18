/* The nearest matrices that bend nowhere upwards: what `_downwards` of `curvature.py` has in torch.
 * Matrices are small and independent. Few of their eigenvalues are above 0: only vectors of these
 * are turned back, and what lies along them is taken away.
 */
#include "parts.h"

#include <float.h>
#include <math.h>

#define MOST_TURNS 60 /* of one eigenvalue: two or three are usual */
#define WORTH 200     /* rows that are worth a thread */

typedef struct {
  int64_t n, d;
  double *matrices; /* (n, d, d), to be changed */
  int64_t *failed;  /* one number */
} Job;

/* The symmetric part of a matrix, over its largest number, which is returned; of what is no number
 * nothing is known. */
static double scaled(const double *a, int64_t d, double *into) {
  double most = 0.0;
  for (int64_t i = 0; i < d; i++)
    for (int64_t j = 0; j <= i; j++) {
      double x = 0.5 * a[i * d + j] + 0.5 * a[j * d + i];
      into[i * d + j] = into[j * d + i] = isfinite(x) ? x : 0.0;
      most = fmax(most, fabs(into[i * d + j]));
    }
  for (int64_t i = 0; most > 0.0 && i < d * d; i++) into[i] /= most;
  return most;
}

/* Whether -a has a Cholesky factor. */
static int bends_down(const double *a, int64_t d, double *lower) {
  for (int64_t i = 0; i < d; i++)
    for (int64_t j = 0; j <= i; j++) {
      double left = -a[i * d + j];
      for (int64_t k = 0; k < j; k++) left -= lower[i * d + k] * lower[j * d + k];
      if (i == j && left <= 0.0) return 0;
      lower[i * d + j] = i == j ? sqrt(left) : left / lower[j * d + j];
    }
  return 1;
}

/* By reflections 1 - b v v' to a tridiagonal matrix: its diagonal, what is beside that, and b. The
 * k-th v is left in the k-th row. */
static void tridiagonal(double *a, int64_t d, double *diagonal, double *beside, double *b) {
  double w[d];
  for (int64_t k = 0; k < d; k++) {
    double *v = a + k * d, square = 0.0, along = 0.0;
    diagonal[k] = v[k];
    beside[k] = k + 1 < d ? v[k + 1] : 0.0;
    b[k] = 0.0;
    for (int64_t j = k + 2; j < d; j++) square += v[j] * v[j];
    if (square == 0.0) continue;
    beside[k] = -copysign(sqrt(square + v[k + 1] * v[k + 1]), v[k + 1]);
    b[k] = 1.0 / (beside[k] * (beside[k] - v[k + 1]));
    v[k + 1] -= beside[k];
    memset(w, 0, sizeof(w));
    for (int64_t i = k + 1; i < d; i++)
      for (int64_t j = k + 1; j < d; j++) w[j] += b[k] * v[i] * a[i * d + j];
    for (int64_t j = k + 1; j < d; j++) along += 0.5 * b[k] * v[j] * w[j];
    for (int64_t j = k + 1; j < d; j++) w[j] -= along * v[j];
    for (int64_t i = k + 1; i < d; i++)
      for (int64_t j = k + 1; j < d; j++) a[i * d + j] -= v[i] * w[j] + w[i] * v[j];
  }
}

/* One sweep of implicit QL from `last` to `first`, with the eigenvalue of the first two that is
 * nearer to the first as its shift; rows of `vectors` are turned likewise. */
static void turn(int64_t d, int64_t first, int64_t last, double *diagonal, double *beside,
                 double *vectors) {
  double half = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
  double away = beside[first] / (half + copysign(sqrt(half * half + 1.0), half));
  double bulge = diagonal[last] - diagonal[first] + away, moved = 0.0, sine = 1.0, cosine = 1.0;
  for (int64_t i = last - 1; i >= first; i--) {
    double before = sine * beside[i], beyond = cosine * beside[i];
    double length = sqrt(before * before + bulge * bulge);
    beside[i + 1] = length;
    if (length == 0.0) { /* it falls into two */
      diagonal[i + 1] -= moved;
      beside[last] = 0.0;
      return;
    }
    sine = before / length;
    cosine = bulge / length;
    double there = diagonal[i + 1] - moved;
    double change = (diagonal[i] - there) * sine + 2.0 * cosine * beyond;
    moved = sine * change;
    diagonal[i + 1] = there + moved;
    bulge = cosine * change - beyond;
    double *one = vectors + i * d, *two = one + d;
    for (int64_t j = 0; j < d; j++) {
      double x = one[j], y = two[j];
      one[j] = cosine * x - sine * y;
      two[j] = sine * x + cosine * y;
    }
  }
  diagonal[first] -= moved;
  beside[first] = bulge;
  beside[last] = 0.0;
}

/* Eigenvalues of a tridiagonal matrix in place, and vectors in rows; not 0 if they are not found. */
static int solve(int64_t d, double *diagonal, double *beside, double *vectors) {
  memset(vectors, 0, d * d * sizeof(double));
  for (int64_t i = 0; i < d; i++) vectors[i * d + i] = 1.0;
  for (int64_t first = 0, turns = 0; first < d; turns++) {
    int64_t last = first;
    for (; last < d - 1; last++)
      if (fabs(beside[last]) <= DBL_EPSILON * (fabs(diagonal[last]) + fabs(diagonal[last + 1]))) break;
    if (last > first && turns == MOST_TURNS) return 1;
    if (last > first) {
      turn(d, first, last, diagonal, beside, vectors);
      continue;
    }
    first++;
    turns = -1;
  }
  return 0;
}

static void bend(const void *given, int64_t first, int64_t last) {
  const Job *job = given;
  int64_t d = job->d, size = d * d;
  double copy[size], vectors[size], values[d], beside[d], b[d];
  for (int64_t k = first; k < last; k++) {
    double *a = job->matrices + k * size, most = scaled(a, d, copy);
    for (int64_t i = 0; i < size; i++) a[i] = most * copy[i];
    if (most == 0.0 || bends_down(copy, d, vectors)) continue;
    tridiagonal(copy, d, values, beside, b);
    if (solve(d, values, beside, vectors)) *job->failed = 1;
    for (int64_t l = 0; l < d; l++) {
      double *v = vectors + l * d;
      if (values[l] <= 0.0) continue;
      for (int64_t i = d - 1; i >= 0; i--) { /* reflected back */
        double along = 0.0;
        for (int64_t j = i + 1; j < d; j++) along += b[i] * copy[i * d + j] * v[j];
        for (int64_t j = i + 1; j < d; j++) v[j] -= along * copy[i * d + j];
      }
      for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++) a[i * d + j] -= most * values[l] * v[i] * v[j];
    }
  }
}

/* Not 0 where values of some matrix were not found. */
int64_t nopg_downwards(const Job *job, int64_t n_threads) {
  int64_t most = job->n * job->d / WORTH + 1;
  in_parts(bend, job, job->n, most < n_threads ? most : n_threads);
  return *job->failed;
}
