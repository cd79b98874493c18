/* x with (I - gamma P) x = b, or with the transpose, by GMRES with a coarse inverse: what
 * `krylov.py` does, in one call. The system for q and the one for mu are solved side by
 * side, each by a team of threads that take rows of the same size whatever their number,
 * and add in the same order: the digits do not depend on it.
 */
#include <sched.h>
#include <stdatomic.h>

#include "shared.h"

#define CHUNK 512     /* numbers that are added up by one thread */
#define MARGIN 0.9    /* steps aim at this share of the tolerance: residuals are estimates */
#define PATIENCE 2000 /* looks at a clock before a thread lets others have the core */

/* Rows of E, (m, n), of which `group` in turn are averaged, and its transpose. */
typedef struct {
  int64_t n, group;
  const int32_t *begins, *ends, *columns;    /* null where every entry is there */
  const int32_t *back_starts, *back_columns;
  const int32_t *back_source; /* which of the values each one of the transpose is */
  const real *values;
  const real *back_values; /* where every entry is there; else they are put together here */
  const real *scale; /* (n), 1 / group, 0 where a row of P is; null if all are 1 */
  double gamma;
  /* The coarse inverse: I + Z core Z' over cells of samples. */
  int64_t n_cells;
  const int32_t *cell, *members, *cell_starts; /* (n), (n) by cell, (n_cells + 1) */
  const float *core;                           /* (n_cells, n_cells) */
} System;

typedef struct {
  int64_t is_transposed, max_matvecs, steps;
  double rtol; /* largest |b - A x| / |b| that counts as solved */
  const real *b;
  real *x, *residual; /* (n); x is where to start, then the solution */
  double *outcome;    /* products spent, length of the residual, and how long it may be */
} Solve;

/* What the threads of a team share. */
typedef struct {
  const System *s;
  const Solve *solve;
  int64_t wanted, n_chunks; /* threads, and parts of a vector */
  atomic_int size, waiting, phase;  /* 0 threads until all are there */
  real *basis, *one, *two, *spread; /* (steps + 1, n), (n), (n), (n group) */
  real *back_values;
  double *partial;                  /* (2, steps + 1, n_chunks) */
  float *sums, *coarse;             /* (n_cells) */
} Team;

/* A thread of a team: its rows, from `low` to `high`. */
typedef struct {
  Team *team;
  int64_t low, high, first_cell, last_cell, turn;
} Member;

static void meet(Team *team) {
  int size = atomic_load_explicit(&team->size, memory_order_relaxed);
  if (size == 1) return;
  int phase = atomic_load(&team->phase);
  if (atomic_fetch_add(&team->waiting, 1) + 1 == size) {
    atomic_store(&team->waiting, 0);
    atomic_fetch_add(&team->phase, 1);
    return;
  }
  for (int64_t looks = 0; atomic_load(&team->phase) == phase; looks++)
    if (looks > PATIENCE) sched_yield();
}

/* Entries from e to `end` times what x has in their columns. */
static inline real gather_dot(const int32_t *columns, const real *values, const real *x,
                              int64_t e, int64_t end) {
  real total[8] = {0}, rest = 0;
  for (; e + 8 <= end; e += 8)
    for (int l = 0; l < 8; l++) total[l] += values[e + l] * x[columns[e + l]];
  for (; e < end; e++) rest += values[e] * x[columns[e]];
  return sum8(total) + rest;
}

/* y = A x in the rows of this thread; others may have made the rest of x. */
static void multiply(Member *me, const real *x, real *y) {
  Team *team = me->team;
  const System *s = team->s;
  int64_t group = s->group;
  real gamma = s->gamma;
  if (!team->solve->is_transposed) {
    meet(team);
    for (int64_t i = me->low; i < me->high; i++) {
      real found = 0;
      for (int64_t row = i * group; row < (i + 1) * group; row++)
        found += s->begins ? gather_dot(s->columns, s->values, x, s->begins[row], s->ends[row])
                           : dot(s->values + row * s->n, x, s->n);
      y[i] = x[i] - gamma * (s->scale ? s->scale[i] * found : found);
    }
    return;
  }
  const real *shares = x, *values = s->back_starts ? team->back_values : s->back_values;
  if (s->scale) {
    for (int64_t i = me->low; i < me->high; i++)
      for (int64_t k = 0; k < group; k++)
        team->spread[i * group + k] = s->scale[i] * x[i];
    shares = team->spread;
  }
  meet(team);
  const int32_t *starts = s->back_starts;
  for (int64_t j = me->low; j < me->high; j++) {
    real found = starts ? gather_dot(s->back_columns, values, shares, starts[j], starts[j + 1])
                        : dot(values + j * s->n * group, shares, s->n * group);
    y[j] = x[j] - gamma * found;
  }
}

/* y = x + Z core Z' x in the rows of this thread. */
static void correct(Member *me, const real *x, real *y) {
  Team *team = me->team;
  const System *s = team->s;
  int64_t C = s->n_cells, begin = me->first_cell, end = me->last_cell;
  meet(team);
  for (int64_t c = begin; c < end; c++) {
    real total = 0;
    for (int64_t j = s->cell_starts[c]; j < s->cell_starts[c + 1]; j++)
      total += x[s->members[j]];
    team->sums[c] = total;
  }
  meet(team);
  for (int64_t c = begin; c < end; c++) team->coarse[c] = 0;
  for (int64_t j = 0; team->solve->is_transposed && j < C; j++)
    for (int64_t c = begin; c < end; c++)
      team->coarse[c] += s->core[j * C + c] * team->sums[j];
  for (int64_t c = begin; !team->solve->is_transposed && c < end; c++) {
    float total[16] = {0};
    int64_t j = 0;
    for (; j + 16 <= C; j += 16)
      for (int l = 0; l < 16; l++) total[l] += s->core[c * C + j + l] * team->sums[j + l];
    for (; j < C; j++) total[0] += s->core[c * C + j] * team->sums[j];
    for (int l = 0; l < 16; l++) team->coarse[c] += total[l];
  }
  meet(team);
  for (int64_t i = me->low; i < me->high; i++) y[i] = x[i] + team->coarse[s->cell[i]];
}

/* Products of vector w with the first `count` of the basis, summed in fixed order. */
static void products(Member *me, int64_t count, const real *w, double *found) {
  Team *team = me->team;
  int64_t n = team->s->n, n_chunks = team->n_chunks;
  /* In turns, so that nobody overwrites what others are still adding up. */
  double *partial = team->partial + (me->turn++ % 2) * (team->solve->steps + 1) * n_chunks;
  for (int64_t i = me->low; i < me->high; i += CHUNK)
    for (int64_t k = 0; k < count; k++)
      partial[k * n_chunks + i / CHUNK] =
          dot(team->basis + k * n + i, w + i, me->high - i < CHUNK ? me->high - i : CHUNK);
  meet(team);
  for (int64_t k = 0; k < count; k++) {
    found[k] = 0.0;
    for (int64_t c = 0; c < n_chunks; c++) found[k] += partial[k * n_chunks + c];
  }
}

/* w <- (w - the first `count` vectors of the basis times `along`) * factor. */
static void subtract(Member *me, int64_t count, const double *along, real factor, real *w) {
  int64_t n = me->team->s->n;
  for (int64_t i = me->low; i < me->high; i += CHUNK) {
    int64_t end = i + CHUNK < me->high ? i + CHUNK : me->high;
    for (int64_t k = 0; k < count; k++) {
      const real *v = me->team->basis + k * n;
      real share = along[k];
      for (int64_t j = i; j < end; j++) w[j] -= share * v[j];
    }
    for (int64_t j = i; j < end; j++) w[j] *= factor;
  }
}

/* Make vector j of the basis orthogonal to those before it, and of length one. `column`
 * gets its coefficients along them, and the length that was left. */
static void orthonormalise(Member *me, int64_t j, double *column) {
  real *w = me->team->basis + j * me->team->s->n;
  double along[j + 1], left;
  products(me, j + 1, w, along); /* the last is its own square */
  memcpy(column, along, j * sizeof(double));
  left = along[j];
  for (int64_t k = 0; k < j; k++) left -= along[k] * along[k];
  if (left < cbrt(EPSILON) * along[j]) {
    /* Little of it is new, and of that much is rounding: once more. */
    subtract(me, j, along, 1, w);
    products(me, j + 1, w, along);
    left = along[j];
    for (int64_t k = 0; k < j; k++) {
      left -= along[k] * along[k];
      column[k] += along[k];
    }
  }
  column[j] = left > 0.0 ? sqrt(left) : 0.0;
  if (column[j] > 0.0) subtract(me, j, along, 1.0 / column[j], w);
}

/* The y of a Krylov space that makes |r - A M y| least, in `one`; the first vector of the
 * basis is r, of length one. Returns the products that were spent. */
static int64_t least_residual(Member *me, double goal, int64_t most) {
  Team *team = me->team;
  int64_t n = team->s->n, spent = 0, size = 0, width = team->solve->steps + 1;
  double H[width * width], cosine[width], sine[width], target[width], left = 1.0;
  while (spent < most && fabs(left) > goal) {
    real *v = team->basis + spent * n, *w = v + n;
    double *column = H + spent * width;
    if (team->s->n_cells) {
      correct(me, v, team->two);
      multiply(me, team->two, w);
    } else {
      multiply(me, v, w);
    }
    spent++;
    /* A M is close to I. The space it spans is that of A M - I, whose products have more
     * to them that is new: less is lost to rounding. */
    for (int64_t i = me->low; i < me->high; i++) w[i] -= v[i];
    orthonormalise(me, spent, column);
    column[spent - 1] += 1.0;
    for (int64_t i = 0; i + 1 < spent; i++) { /* rotations keep H triangular */
      double upper = column[i], lower = column[i + 1];
      column[i] = cosine[i] * upper + sine[i] * lower;
      column[i + 1] = cosine[i] * lower - sine[i] * upper;
    }
    double below = column[spent], diagonal = hypot(column[spent - 1], below);
    if (!(diagonal > 0.0 && isfinite(diagonal))) break;
    cosine[size] = column[spent - 1] / diagonal;
    sine[size] = below / diagonal;
    column[spent - 1] = diagonal;
    target[size] = cosine[size] * left;
    left *= -sine[size++];
    if (!(below > 0.0)) break;
  }
  for (int64_t j = size - 1; j >= 0; j--) {
    target[j] /= H[j * width + j];
    for (int64_t i = 0; i < j; i++) target[i] -= H[j * width + i] * target[j];
    target[j] = -target[j];
  }
  memset(team->one + me->low, 0, (me->high - me->low) * sizeof(real));
  subtract(me, size, target, 1, team->one);
  return spent;
}

/* residual = b - A x; its length. */
static double residual_of(Member *me) {
  Team *team = me->team;
  const Solve *solve = team->solve;
  real *r = solve->residual, *first = team->basis;
  multiply(me, solve->x, r);
  for (int64_t i = me->low; i < me->high; i++) first[i] = r[i] = solve->b[i] - r[i];
  double square;
  products(me, 1, r, &square);
  return sqrt(square);
}

/* What thread number `first` of a team does. */
static void solve_part(const void *job, int64_t first, int64_t last) {
  Team *team = (Team *)job;
  const Solve *solve = team->solve;
  int64_t n = team->s->n, cells = team->s->n_cells, size;
  while (!(size = atomic_load(&team->size))) sched_yield();
  int64_t high = team->n_chunks * last / size * CHUNK;
  Member self = {team, team->n_chunks * first / size * CHUNK, high < n ? high : n,
                 cells * first / size, cells * last / size, 0};
  Member *me = &self;
  if (solve->is_transposed && team->s->back_starts)
    for (int64_t e = team->s->back_starts[me->low]; e < team->s->back_starts[me->high]; e++)
      team->back_values[e] = team->s->values[team->s->back_source[e]];
  memcpy(team->basis + me->low, solve->b + me->low, (me->high - me->low) * sizeof(real));
  double square;
  products(me, 1, solve->b, &square);
  double tolerance = solve->rtol * sqrt(square), finest = 1e2 * EPSILON;
  double norm = residual_of(me);
  int64_t matvecs = 1;
  while (norm > tolerance && matvecs < solve->max_matvecs && isfinite(norm)) {
    int64_t most = solve->max_matvecs - matvecs;
    double goal = MARGIN * tolerance / norm, previous = norm;
    for (int64_t i = me->low; i < me->high; i++) team->basis[i] *= 1.0 / norm;
    matvecs += 1 + least_residual(me, goal > finest ? goal : finest,
                                  most < solve->steps ? most : solve->steps);
    real *found = team->one;
    if (cells) correct(me, team->one, found = team->two);
    for (int64_t i = me->low; i < me->high; i++) solve->x[i] += norm * found[i];
    norm = residual_of(me);
    if (norm > 0.999 * previous) break; /* it stagnates */
  }
  if (first == 0) {
    solve->outcome[0] = matvecs;
    solve->outcome[1] = norm;
    solve->outcome[2] = tolerance;
  }
}

/* Memory for a team; whether there is any. */
static int equip(Team *team) {
  const System *s = team->s;
  int64_t n = s->n, width = team->solve->steps + 1, n_sums = 2 * width * team->n_chunks;
  int64_t n_reals = (width + 2 + s->group) * n;
  if (team->solve->is_transposed && s->back_starts) n_reals += s->back_starts[n];
  team->partial = malloc(n_sums * sizeof(double) + n_reals * sizeof(real) +
                         2 * s->n_cells * sizeof(float));
  if (!team->partial) return 0;
  team->basis = (real *)(team->partial + n_sums);
  team->one = team->basis + width * n;
  team->two = team->one + n;
  team->spread = team->two + n;
  team->back_values = team->spread + n * s->group;
  team->sums = (float *)(team->basis + n_reals);
  team->coarse = team->sums + s->n_cells;
  return 1;
}

/* What the teams from `first` to `last` are there for. */
static void run_teams(const void *job, int64_t first, int64_t last) {
  for (Team *team = (Team *)job + first; first < last; first++, team++) {
    Part parts[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int64_t size = 1;
    for (; size < team->wanted; size++) {
      parts[size] = (Part){solve_part, team, size, size + 1};
      if (pthread_create(&threads[size], NULL, run_part, &parts[size])) break;
    }
    atomic_store(&team->size, size);
    solve_part(team, 0, 1);
    while (--size) pthread_join(threads[size], NULL);
  }
}

/* Both systems, from where their x are; without memory outcomes stay as they were. */
void nopg_solve_pair(const System *s, const Solve *q, const Solve *mu, int64_t n_threads) {
  int64_t n_chunks = (s->n + CHUNK - 1) / CHUNK, each = n_threads / 2;
  each = each < MOST_THREADS ? each : MOST_THREADS;
  Team teams[] = {{.s = s, .solve = q, .wanted = each, .n_chunks = n_chunks},
                  {.s = s, .solve = mu, .wanted = each, .n_chunks = n_chunks}};
  if (equip(&teams[0]) && equip(&teams[1]))
    in_parts(run_teams, teams, 2, n_threads < 2 ? 1 : 2);
  free(teams[0].partial);
  free(teams[1].partial);
}

/* Entries of P summed over cells, (n_cells, n_cells). */
typedef struct {
  const System *s;
  double *sums;
} CellSums;

static void cell_sums(const void *job, int64_t first, int64_t last) {
  const System *s = ((const CellSums *)job)->s;
  int64_t C = s->n_cells, group = s->group, n = s->n;
  for (int64_t c = first; c < last; c++) {
    double *sums = ((const CellSums *)job)->sums + c * C;
    memset(sums, 0, C * sizeof(double));
    for (int64_t j = s->cell_starts[c]; j < s->cell_starts[c + 1]; j++) {
      int64_t i = s->members[j];
      double scale = s->scale ? s->scale[i] : 1.0;
      for (int64_t row = i * group; row < (i + 1) * group; row++) {
        int64_t e = s->begins ? s->begins[row] : row * n;
        for (int64_t end = s->begins ? s->ends[row] : (row + 1) * n; e < end; e++)
          sums[s->cell[s->columns ? s->columns[e] : e % n]] += scale * s->values[e];
      }
    }
  }
}

void nopg_cell_sums(const System *s, double *sums, int64_t n_threads) {
  CellSums job = {s, sums};
  in_parts(cell_sums, &job, s->n_cells, n_threads);
}
