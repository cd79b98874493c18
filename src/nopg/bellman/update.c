/* An update of a policy in one call: what the policy does, the rows, both solves, the gradient and
 * Adam's step, as `Estimator.solve`, `BellmanSolution.gradient` and `Adam.step` do one after the
 * other. What takes long are functions of other files, which are handed over with their structures;
 * nothing is laid out anew between two updates.
 */
#include "shared.h"

#include "adam.h"

typedef void (*Rows)(const void *job, int64_t n_threads);
typedef int64_t (*Policy)(const void *pass, int64_t n_threads);
typedef int64_t (*Invert)(const void *system, float *core, int64_t n_threads);
typedef int64_t (*SolvePair)(const void *system, const void *q, const void *mu, char *room,
                             int64_t n_threads);

/* Rows at some queries and the covariances of q under them, (m, d_a). */
typedef struct {
  int64_t m, entries; /* entries that are worth a thread each */
  const void *rows, *slopes;
  const real *dropped; /* (m) */
  real *covariances;
} Queries;

typedef struct {
  Policy policy;
  Rows rows, covariances;
  Invert invert;
  SolvePair solve;
  const void *forwards, *backwards, *system, *solves[2]; /* the last for q and mu */
  Queries next, initial;
  const int32_t *begins, *ends, *columns; /* of rows at initial queries, and their entries */
  const real *weights;
  char *room;
  int64_t n, group, d_a, passes, cells, work; /* and what is worth a thread each */
  double gamma, span; /* and of the returns that can be had */
  const real *rewards, *scale; /* (n); null if all are 1 */
  const real *variances;       /* of the action kernel, (d_a) */
  real *eps0, *visits;         /* (n), (n group) */
  real *starts[2], *x[2], *residuals[2]; /* (n), of q and mu */
  const double *outcomes;      /* (2, 3): products, lengths of residuals, how long they may be */
  float *core;
  Adam adam;
  double *found; /* (7), see `Measured` */
} Update;

static int64_t at_most(int64_t n_threads, int64_t worth) { return worth < n_threads ? worth : n_threads; }

static double total(const real *x, int64_t n) {
  double sum[8] = {0}, rest = 0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; l++) sum[l] += fabs((double)x[i + l]);
  for (; i < n; i++) rest += fabs((double)x[i]);
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
}

static double inner(const real *x, const real *y, int64_t n) {
  double sum[8] = {0}, rest = 0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; l++) sum[l] += (double)x[i + l] * y[i + l];
  for (; i < n; i++) rest += (double)x[i] * y[i];
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])) + rest;
}

static void ends_of(const real *x, int64_t n, double *low, double *high) {
  *low = *high = x[0];
  for (int64_t i = 1; i < n; i++) {
    *low = x[i] < *low ? x[i] : *low;
    *high = x[i] > *high ? x[i] : *high;
  }
}

/* Mean rows at the initial queries. */
static void mean_rows(const Update *u) {
  memset(u->eps0, 0, u->n * sizeof(real));
  for (int64_t i = 0; i < u->initial.m; i++)
    for (int64_t e = u->begins[i]; e < u->ends[i]; e++)
      u->eps0[u->columns[e]] += u->weights[e] / (real)u->initial.m;
}

/* What each next state is visited, of all of mu or of what is positive of it. */
static void spread(const Update *u, int is_positive) {
  for (int64_t i = 0; i < u->n; i++) {
    real y = u->x[1][i];
    y = is_positive && !(y > 0) ? 0 : y;
    y = u->scale ? y * u->scale[i] : y;
    for (int64_t k = 0; k < u->group; k++) u->visits[i * u->group + k] = y;
  }
}

/* Covariances become slopes of J by the actions, Eq. (10). */
static void weigh(const Update *u, const Queries *at, int64_t n_threads) {
  u->covariances(at->slopes, at_most(n_threads, at->entries));
  for (int64_t i = 0; i < at->m; i++)
    for (int64_t a = 0; a < u->d_a; a++) {
      real weight = at == &u->next ? (real)u->gamma * u->visits[i] : (real)1 / (real)at->m;
      at->covariances[i * u->d_a + a] *= weight / u->variances[a];
    }
}

/* Products, J and what truncation and solver can have cost, as `BellmanSolution.objective`. */
static void measure(const Update *u) {
  double low, high, res_low, res_high, least, most, horizon = 1.0 / (1.0 - u->gamma);
  for (int s = 0; s < 2; s++) u->found[s] = u->outcomes[3 * s];
  u->found[2] = inner(u->eps0, u->x[0], u->n) + inner(u->x[1], u->residuals[0], u->n);
  ends_of(u->x[0], u->n, &low, &high);
  ends_of(u->residuals[0], u->n, &res_low, &res_high);
  ends_of(u->next.dropped, u->next.m, &least, &most);
  double res_q = fmax(-res_low, res_high), res_mu = total(u->residuals[1], u->n);
  spread(u, 1);
  double mass = u->gamma * inner(u->visits, u->next.dropped, u->next.m);
  mass += total(u->initial.dropped, u->initial.m) / u->initial.m + u->gamma * most * res_mu * horizon;
  double solved = high - low + 2.0 * res_q * horizon;
  double span = fmin(u->span, solved * (1.0 + 2.0 * u->gamma * horizon * most));
  double rounding = 16.0 * EPSILON * total(u->x[1], u->n) * fmax(-low, high);
  u->found[3] = mass * span;
  u->found[4] = res_q * res_mu * horizon + rounding;
  u->found[5] = most;
}

/* 0 if all is done. Nothing is learned where a solve does not end, and 1 is returned; -1 where
 * there is no memory. `is_new` asks for a coarse inverse of these rows. */
int64_t nopg_update(const Update *u, int64_t is_new, double rate, double unbiased,
                    int64_t n_threads) {
  const Queries *both[] = {&u->next, &u->initial};
  if (u->policy(u->forwards, at_most(n_threads, u->passes))) return -1;
  for (int k = 0; k < 2; k++) u->rows(both[k]->rows, at_most(n_threads, both[k]->entries));
  mean_rows(u);
  if (is_new && !u->invert(u->system, u->core, at_most(n_threads, u->cells))) return 1;
  for (int s = 0; s < 2; s++) memcpy(u->x[s], u->starts[s], u->n * sizeof(real));
  u->solve(u->system, u->solves[0], u->solves[1], u->room, at_most(n_threads, u->work));
  for (int s = 0; s < 2; s++)
    if (!(u->outcomes[3 * s + 1] <= u->outcomes[3 * s + 2])) return 1;
  for (int s = 0; s < 2; s++) memcpy(u->starts[s], u->x[s], u->n * sizeof(real));
  measure(u);
  spread(u, 0);
  for (int k = 0; k < 2; k++) weigh(u, both[k], n_threads);
  if (u->policy(u->backwards, at_most(n_threads, u->passes))) return -1;
  u->found[6] = length_of(&u->adam);
  step(&u->adam, rate, unbiased);
  return 0;
}
