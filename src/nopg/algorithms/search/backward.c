/* The best changes of the actions along paths, and gains around these, backward in time: what
 * `_backward` of `trajectories.py` says, path by path. Nothing depends on what other paths there
 * are, but for the steps that none makes.
 */
#include "parts.h"

#include <math.h>

typedef struct {
  int64_t n_paths, n_steps, d_s, d_a; /* d is d_s + d_a */
  double gamma, worst, least;         /* and the least damping */
  const int64_t *is_made;             /* (n_steps), by any path */
  const double *damping, *limits, *unit; /* (n_paths), (2, d_a), (d_a) */
  /* Of each step of each path: what was, */
  const double *states, *actions, *following, *rewards, *terminated, *left;
  /* and what it depends on: (d_s, d), (d), (d, d), (d), (d). */
  const double *moving, *earning, *bending, *ending, *leaving;
  double *change, *gains; /* (d_a), (d_a, d_s) */
} Paths;

typedef struct {
  const Paths *paths;
  atomic_int is_short; /* of memory */
} Job;

/* The inverse of a matrix (n, n), which is lost, by elimination with pivots. */
static void invert(int64_t n, double *a, double *inverse) {
  for (int64_t i = 0; i < n * n; i++) inverse[i] = i % (n + 1) == 0;
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < n; i++)
      if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
    for (int64_t j = 0; j < n && best != k; j++) {
      double here = a[k * n + j], there = inverse[k * n + j];
      a[k * n + j] = a[best * n + j], a[best * n + j] = here;
      inverse[k * n + j] = inverse[best * n + j], inverse[best * n + j] = there;
    }
    double pivot = a[k * n + k];
    for (int64_t j = 0; j < n; j++) a[k * n + j] /= pivot, inverse[k * n + j] /= pivot;
    for (int64_t i = 0; i < n; i++) {
      double factor = a[i * n + k];
      for (int64_t j = 0; j < n && i != k; j++) {
        a[i * n + j] -= factor * a[k * n + j];
        inverse[i * n + j] -= factor * inverse[k * n + j];
      }
    }
  }
}

/* c += a b, (n, k) times (k, m); with `is_turned` a is (k, n). */
static void add_product(int64_t n, int64_t k, int64_t m, int is_turned, const double *a,
                        const double *b, double *c) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t l = 0; l < k; l++) {
      double x = is_turned ? a[l * n + i] : a[i * k + l];
      for (int64_t j = 0; j < m; j++) c[i * m + j] += x * b[l * m + j];
    }
}

static void go_back(const void *given, int64_t first, int64_t last) {
  Job *job = (Job *)given;
  const Paths *p = job->paths;
  int64_t d_s = p->d_s, d_a = p->d_a, d = d_s + d_a;
  double *memory = malloc((3 * d * d + 7 * d + 2 * d_a * d + d * d_s + 2) * sizeof(double));
  if (!memory) {
    atomic_store(&job->is_short, 1);
    return;
  }
  double *bend = memory, *q = bend + d_s * d_s, *qq = q + d, *bent = qq + d * d, *ahead = bent + d_s * d;
  double *slope = ahead + d_s, *by_action = slope + d_s, *damped = by_action + d_a * d_a;
  double *inverse = damped + d_a * d_a, *pushed = inverse + d_a * d_a, *gain = pushed + d_a;
  double *by_gain = gain + d_a * d_s;
  for (int64_t b = first; b < last; b++) {
    double value = 0.0;
    memset(slope, 0, d_s * sizeof(double));
    memset(bend, 0, d_s * d_s * sizeof(double));
    for (int64_t t = p->n_steps - 1; t >= 0; t--) {
      if (!p->is_made[t]) continue;
      int64_t row = t * p->n_paths + b, next = row + p->n_paths;
      const double *moving = p->moving + row * d_s * d, *action = p->actions + row * d_a;
      double *change = p->change + row * d_a;
      memcpy(ahead, slope, d_s * sizeof(double));
      for (int64_t i = 0; t + 1 < p->n_steps && i < d_s; i++)
        for (int64_t j = 0; j < d_s; j++)
          ahead[i] += bend[i * d_s + j] * (p->following[row * d_s + j] - p->states[next * d_s + j]);
      double stays = 1.0 - p->terminated[row], out = p->left[row];
      double expected = (1.0 - out) * value + out * p->worst, going = p->gamma * stays * (1.0 - out);
      double lost = p->gamma * stays * (p->worst - value);
      for (int64_t j = 0; j < d; j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < d_s; i++) sum += ahead[i] * moving[i * d + j];
        q[j] = p->earning[row * d + j] + going * sum - p->gamma * expected * p->ending[row * d + j];
        q[j] += lost * p->leaving[row * d + j];
      }
      memset(bent, 0, d_s * d * sizeof(double));
      memset(qq, 0, d * d * sizeof(double));
      add_product(d_s, d_s, d, 0, bend, moving, bent);
      add_product(d, d_s, d, 1, moving, bent, qq);
      for (int64_t i = 0; i < d * d; i++) qq[i] = p->bending[row * d * d + i] + going * qq[i];
      value = p->rewards[row] + p->gamma * stays * expected;
      /* Damped in units of the largest curvature, so that no unit of rewards matters. */
      double scale = 0.0;
      for (int64_t i = 0; i < d_a; i++) {
        memcpy(by_action + i * d_a, qq + (d_s + i) * d + d_s, d_a * sizeof(double));
        scale += fabs(q[d_s + i]) * p->unit[i] - by_action[i * d_a + i] * p->unit[i] * p->unit[i];
      }
      scale *= p->damping[b];
      scale = scale < p->least ? p->least : scale;
      memcpy(damped, by_action, d_a * d_a * sizeof(double));
      for (int64_t i = 0; i < d_a; i++) damped[i * d_a + i] -= scale / (p->unit[i] * p->unit[i]);
      invert(d_a, damped, inverse);
      memset(gain, 0, d_a * d_s * sizeof(double));
      for (int64_t i = 0; i < d_a; i++) {
        double low = fmin(p->limits[i] - action[i], 0.0), step = 0.0;
        double high = fmax(p->limits[d_a + i] - action[i], 0.0);
        for (int64_t j = 0; j < d_a; j++) {
          step -= inverse[i * d_a + j] * q[d_s + j];
          for (int64_t k = 0; k < d_s; k++)
            gain[i * d_s + k] -= inverse[i * d_a + j] * qq[(d_s + j) * d + k];
        }
        change[i] = step < low ? low : step > high ? high : step;
      }
      if (p->terminated[row] < 1.0) memcpy(p->gains + row * d_a * d_s, gain, d_a * d_s * sizeof(double));
      for (int64_t i = 0; i < d_a; i++) {
        pushed[i] = q[d_s + i];
        for (int64_t j = 0; j < d_a; j++) pushed[i] += by_action[i * d_a + j] * change[j];
      }
      memset(by_gain, 0, d_a * d_s * sizeof(double));
      add_product(d_a, d_a, d_s, 0, by_action, gain, by_gain);
      for (int64_t i = 0; i < d_s; i++) { /* what is across is (d_s, d_a) */
        const double *across = qq + i * d + d_s;
        slope[i] = q[i];
        memcpy(bend + i * d_s, qq + i * d, d_s * sizeof(double));
        for (int64_t k = 0; k < d_a; k++) {
          slope[i] += gain[k * d_s + i] * pushed[k] + across[k] * change[k];
          for (int64_t j = 0; j < d_s; j++) {
            double turned = by_gain[k * d_s + j] + qq[j * d + d_s + k];
            bend[i * d_s + j] += gain[k * d_s + i] * turned + across[k] * gain[k * d_s + j];
          }
        }
      }
      for (int64_t i = 0; i < d_s; i++)
        for (int64_t j = 0; j < i; j++)
          bend[i * d_s + j] = bend[j * d_s + i] = 0.5 * (bend[i * d_s + j] + bend[j * d_s + i]);
    }
  }
  free(memory);
}

/* Not 0 where there is no memory. */
int64_t nopg_backward_pass(const Paths *paths, int64_t n_threads) {
  Job job = {paths, 0};
  in_parts(go_back, &job, paths->n_paths, n_threads < paths->n_paths ? n_threads : paths->n_paths);
  return job.is_short;
}
