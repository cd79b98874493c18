/* An update of some policies by the gradients of their returns in a learned model, in one call: what
 * `refinement.py` does by `rollout_gradients` and `Adam.step` where nothing is noisy. What takes
 * long are functions of `rollout.c` and `perceptron.c`, which are handed over with their structures;
 * nothing is laid out anew between two updates.
 */
#include "dynamics/paths.h"
#include "parts.h"

#include <math.h>
typedef double real;
#include "adam.h"

#define GONE 1e-12 /* probability of running at which paths have ended */
#define BLOCK 64   /* steps before it is asked whether paths have ended; then twice as many */

typedef int (*Rollouts)(const void *paths, int64_t n_threads, const void *model, const void *policies);
typedef int (*Backwards)(const void *paths, int64_t n_threads, const void *model);
typedef int64_t (*Perceptron)(const void *pass, int64_t n_threads);

typedef struct {
  int64_t *slopes_of, *pull_back;    /* passes, which begin with how many states there are */
  double *states, *slopes, *by_actions; /* what these take and give, state by state */
  double *weights, *biases;          /* where rollouts read the parameters, weights (in, out) */
  Adam adam;
} Learner;

typedef struct {
  Rollouts roll_out;
  Backwards go_back;
  Perceptron perceptron;
  const void *model, *policies;
  const Rollout *forwards; /* of the whole horizon */
  Backward *backwards;
  int64_t n_learners, n_starts, horizon, d_s, d_a;
  const Learner *const *learners;
  double gamma;
  const double *starts; /* (n_learners n_starts, d_s) */
  double *by_state;     /* where the way back reads it */
  const double *rates;  /* (n_learners, 2) */
  double *lengths;      /* of the gradients, (n_learners) */
} Ascents;

typedef struct {
  const Ascents *all;
  int64_t n_steps, n_threads; /* and threads of each learner */
  atomic_int is_short;        /* of memory */
} Job;

/* Hand the parameters to the rollouts. */
static void copy(const Learner *one) {
  double *w = one->weights, *b = one->biases;
  for (int64_t t = 0; t < one->adam.n_tensors; t += 2) {
    int64_t n_out = one->adam.sizes[t + 1], n_in = one->adam.sizes[t] / n_out;
    for (int64_t j = 0; j < n_out; j++)
      for (int64_t i = 0; i < n_in; i++) w[i * n_out + j] = one->adam.parameters[t][j * n_in + i];
    memcpy(b, one->adam.parameters[t + 1], n_out * sizeof(double));
    w += n_in * n_out;
    b += n_out;
  }
}

/* Slopes of what learners `first` to `last` did by the states they came to. */
static void slopes(const void *job, int64_t first, int64_t last) {
  Job *own = (Job *)job;
  const Ascents *u = own->all;
  int64_t n = u->n_starts, n_paths = n * u->n_learners, d = u->d_s, size = u->d_a * d;
  for (int64_t k = first; k < last; k++) {
    const Learner *one = u->learners[k];
    for (int64_t t = 0; t < own->n_steps; t++)
      memcpy(one->states + t * n * d, u->forwards->states + (t * n_paths + k * n) * d, n * d * sizeof(double));
    one->slopes_of[0] = own->n_steps * n;
    if (u->perceptron(one->slopes_of, own->n_threads)) atomic_store(&own->is_short, 1);
    for (int64_t t = 0; t < own->n_steps; t++)
      memcpy(u->by_state + (t * n_paths + k * n) * size, one->slopes + t * n * size,
             n * size * sizeof(double));
  }
}

/* Learners `first` to `last` improve, those whose gradient is one. */
static void improve(const void *job, int64_t first, int64_t last) {
  Job *own = (Job *)job;
  const Ascents *u = own->all;
  int64_t n = u->n_starts, n_paths = n * u->n_learners, d_a = u->d_a;
  for (int64_t k = first; k < last; k++) {
    const Learner *one = u->learners[k];
    for (int64_t i = 0; i < n; i++) {
      double weight = 1.0 / (double)n;
      for (int64_t t = 0; t < own->n_steps; t++, weight *= u->gamma) {
        int64_t row = t * n_paths + k * n + i;
        for (int64_t a = 0; a < d_a; a++)
          one->by_actions[(t * n + i) * d_a + a] = weight * u->backwards->gradients[row * d_a + a];
        weight *= (1.0 - u->forwards->terminated[row]) * (1.0 - u->forwards->left[row]);
      }
    }
    one->pull_back[0] = own->n_steps * n;
    if (u->perceptron(one->pull_back, own->n_threads)) {
      atomic_store(&own->is_short, 1);
      continue;
    }
    u->lengths[k] = length_of(&one->adam);
    if (isfinite(u->lengths[k]) && u->lengths[k] > 0.0)
      step(&one->adam, u->rates[2 * k], u->rates[2 * k + 1]);
  }
}

/* Roll out until all paths have ended, and say how many steps that took; 0 without memory. */
static int64_t roll_out(const Ascents *u, int64_t n_threads) {
  const Rollout *all = u->forwards;
  int64_t n = all->n_paths, d_s = u->d_s, done = 0;
  for (int64_t b = 0; b < n; b++) all->running[b] = 1.0;
  memcpy(all->states, u->starts, n * d_s * sizeof(double));
  for (int64_t count = BLOCK; done < u->horizon; count *= 2) {
    int64_t row = done * n, size = count < u->horizon - done ? count : u->horizon - done;
    if (done) memcpy(all->states + row * d_s, all->following + (row - n) * d_s, n * d_s * sizeof(double));
    Rollout some = {n, size, NULL, all->running, all->states + row * d_s,
                    all->actions + row * u->d_a, all->reached + row * d_s,
                    all->following + row * d_s, all->rewards + row, all->terminated + row,
                    all->left + row, all->continuing + row};
    if (u->roll_out(&some, n_threads, u->model, u->policies)) return 0;
    done += size;
    double most = 0.0;
    for (int64_t b = 0; b < n; b++) most = all->running[b] > most ? all->running[b] : most;
    if (most < GONE) break;
  }
  return done;
}

/* Not 0 where there is no memory. */
int64_t nopg_ascend(const Ascents *u, int64_t n_threads) {
  int64_t n = u->n_learners, side_by_side = n < n_threads ? n : n_threads;
  for (int64_t k = 0; k < n; k++) copy(u->learners[k]);
  Job job = {u, roll_out(u, n_threads), n_threads / side_by_side, 0};
  if (!job.n_steps) return -1;
  in_parts(slopes, &job, n, side_by_side);
  if (job.is_short) return -1;
  u->backwards->n_steps = job.n_steps;
  if (u->go_back(u->backwards, n_threads, u->model)) return -1;
  in_parts(improve, &job, n, side_by_side);
  return job.is_short ? -1 : 0;
}
