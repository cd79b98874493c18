/* Value iteration among anchors, all sweeps in one call, as `planning.py` has it without a
 * compiler: a sweep takes less time than a call of it does.
 */
#include "shared.h"

#define FEW 1000 /* actions that are worth a thread of their own */

typedef struct {
  int64_t n, n_actions, most; /* anchors, actions of each, sweeps at most */
  double tolerance;           /* change over the largest value at which it ends */
  const int32_t *ends, *columns; /* of rows of weights, (n n_actions + 1) and (entries) */
  const double *weights;         /* (entries) */
  const double *earned, *ahead;  /* (n n_actions) */
  double *value, *by_action;     /* where it starts and ends, (n) and (n, n_actions) */
} Job;

typedef struct {
  const Job *job;
  Crew crew;
  double *before;                                    /* values of the sweep before, (n) */
  double changes[MOST_THREADS], sizes[MOST_THREADS]; /* of each thread's anchors */
} Shared;

/* Anchors of one of the threads, in step with the others. */
static void part(const void *given, int64_t first, int64_t last) {
  Shared *s = (Shared *)given;
  const Job *job = s->job;
  int64_t size = crew_size(&s->crew), n = job->n, from = n * first / size, to = n * last / size;
  for (int64_t sweep = 0; sweep < job->most; sweep++) {
    for (int64_t i = from; i < to; i++) s->before[i] = job->value[i];
    meet(&s->crew);
    double change = 0.0, largest = 0.0;
    for (int64_t i = from; i < to; i++) {
      double best = -INFINITY;
      for (int64_t row = i * job->n_actions; row < (i + 1) * job->n_actions; row++) {
        double sum = 0.0;
        for (int64_t k = job->ends[row]; k < job->ends[row + 1]; k++)
          sum += job->weights[k] * s->before[job->columns[k]];
        double here = job->by_action[row] = job->earned[row] + job->ahead[row] * sum;
        best = here > best ? here : best;
      }
      job->value[i] = best;
      change = fmax(change, fabs(best - s->before[i]));
      largest = fmax(largest, fabs(best));
    }
    s->changes[first] = change;
    s->sizes[first] = largest;
    meet(&s->crew);
    for (int64_t t = 0; t < size; t++) {
      change = fmax(change, s->changes[t]);
      largest = fmax(largest, s->sizes[t]);
    }
    if (change <= job->tolerance * largest) break;
  }
}

/* Not 0 if there is no memory. */
int64_t nopg_values(const Job *job, int64_t n_threads) {
  Shared s = {.job = job, .before = malloc(job->n * sizeof(double))};
  if (!s.before) return 1;
  int64_t most = job->n * job->n_actions / FEW + 1;
  in_step(part, &s, &s.crew, most < n_threads ? most : n_threads);
  free(s.before);
  return 0;
}
