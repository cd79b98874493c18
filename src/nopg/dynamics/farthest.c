/* Points that lie far apart, each the farthest from those before it. */
#include <stdint.h>

typedef struct {
  int64_t n, d, count;
  const double *x;  /* (d, n) */
  double *distance; /* (n), from the nearest that is chosen */
  int64_t *chosen;  /* (count), the first of which is given */
} Points;

void nopg_farthest(const Points *p) {
  int64_t n = p->n, d = p->d, *chosen = p->chosen;
  const double *x = p->x;
  double *distance = p->distance;
  for (int64_t i = 0; i < n; i++) distance[i] = INT64_MAX;
  for (int64_t k = 1; k < p->count; k++) {
    const double *from = x + chosen[k - 1];
    double most[8] = {0};
    int64_t last = n - n % 8;
    for (int64_t i = 0; i < last; i += 8) {
      double near[8] = {0};
      for (int64_t j = 0; j < d; j++)
        for (int l = 0; l < 8; l++) {
          double apart = x[j * n + i + l] - from[j * n];
          near[l] += apart * apart;
        }
      for (int l = 0; l < 8; l++) {
        distance[i + l] = near[l] < distance[i + l] ? near[l] : distance[i + l];
        most[l] = distance[i + l] > most[l] ? distance[i + l] : most[l];
      }
    }
    for (int64_t i = last; i < n; i++) {
      double near = 0;
      for (int64_t j = 0; j < d; j++) {
        double apart = x[j * n + i] - from[j * n];
        near += apart * apart;
      }
      distance[i] = near < distance[i] ? near : distance[i];
      most[0] = distance[i] > most[0] ? distance[i] : most[0];
    }
    for (int l = 1; l < 8; l++) most[0] = most[l] > most[0] ? most[l] : most[0];
    int64_t at = 0;
    while (at < n - 1 && distance[at] < most[0]) at++;
    chosen[k] = at;
  }
}
