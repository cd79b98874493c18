/* x with (I - gamma P) x = b, or with the transpose, by GMRES with a coarse inverse: what
 * `krylov.py` does, in one call. Steps are made in single precision, without entries that
 * are small beside what is asked for: they find what x lacks, and need not find it exactly.
 * The residual between restarts is that of the data's numbers, so that any tolerance is
 * reached.
 *
 * The system for q and the one for mu are solved side by side, each by a team of threads
 * that add in the same order whatever their number: the digits do not depend on it.
 */
#include "shared.h"

#define CHUNK 512     /* numbers that are added up by one thread */
#define FINEST 0x1p-23 /* of single precision */
#define MARGIN 0.9    /* steps aim at this share of the tolerance: residuals are estimates */

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
  Crew crew;
  double *partial;                   /* (2, steps + 1, n_chunks) */
  real *wide, *back_values;          /* (n group), (entries) */
  float *basis, *one, *two;          /* (steps + 1, n), (n), (n) */
  float *sums, *coarse;              /* (n_cells) */
  const real *values;                /* of E or E', as they are */
  /* gamma P, or its transpose, in single precision: all of it, (n, n), or what counts. */
  float *light;
  int32_t *light_columns, *light_begins, *light_ends; /* null if it is complete */
  float *share, *spread; /* (m), what rows of E are multiplied by, and x with that */
} Team;

/* A thread of a team: its rows, from `low` to `high`. */
typedef struct {
  Team *team;
  int64_t low, high, first_cell, last_cell, turn;
} Member;

#define T real
#define NAME(function) function##_exact
#include "linalg/products.h"
#undef T
#undef NAME
#define T float
#define NAME(function) function##_single
#include "linalg/products.h"

/* y = A x in the rows of this thread; others may have made the rest of x. */
static void multiply(Member *me, const real *x, real *y) {
  Team *team = me->team;
  const System *s = team->s;
  const int32_t *starts = s->back_starts;
  int64_t group = s->group, m = s->n * group;
  const real *values = team->values, *shares = x;
  if (!team->solve->is_transposed) {
    meet(&team->crew);
    for (int64_t i = me->low; i < me->high; i++) {
      real found = 0;
      for (int64_t row = i * group; row < (i + 1) * group; row++)
        found += s->begins ? gather_dot_exact(s->columns, values, x, s->begins[row], s->ends[row])
                           : dot_exact(values + row * s->n, x, s->n);
      y[i] = x[i] - (real)s->gamma * (s->scale ? s->scale[i] * found : found);
    }
    return;
  }
  if (s->scale) {
    for (int64_t i = me->low; i < me->high; i++)
      for (int64_t k = 0; k < group; k++) team->wide[i * group + k] = s->scale[i] * x[i];
    shares = team->wide;
  }
  meet(&team->crew);
  for (int64_t j = me->low; j < me->high; j++) {
    real found = starts ? gather_dot_exact(s->back_columns, values, shares, starts[j], starts[j + 1])
                        : dot_exact(values + j * m, shares, m);
    y[j] = x[j] - (real)s->gamma * found;
  }
}

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

/* The same in single precision, and nearly. */
static void multiply_light(Member *me, const float *x, float *y) {
  const Team *team = me->team;
  const int32_t *columns = team->light_columns;
  int64_t n = team->s->n, group = team->s->group;
  if (columns && team->solve->is_transposed) {
    for (int64_t row = me->low * group; row < me->high * group; row++)
      team->spread[row] = team->share[row] * x[group > 1 ? row / group : row];
  }
  meet(&me->team->crew);
  const float *from = columns && team->solve->is_transposed ? team->spread : x;
  for (int64_t i = me->low; i < me->high; i++) {
    if (!columns) {
      y[i] = x[i] - dot_single(team->light + i * n, x, n);
      continue;
    }
    Four total = {0};
    for (int64_t e = team->light_begins[i]; e < team->light_ends[i]; e += 4) {
      const int32_t *c = columns + e;
      total += *(const Four *)(team->light + e) * (Four){from[c[0]], from[c[1]], from[c[2]], from[c[3]]};
    }
    y[i] = x[i] - ((total[0] + total[1]) + (total[2] + total[3]));
  }
}

/* y = x + Z core Z' x in the rows of this thread. */
static void correct(Member *me, const float *x, float *y) {
  Team *team = me->team;
  const System *s = team->s;
  int64_t C = s->n_cells, begin = me->first_cell, end = me->last_cell;
  meet(&team->crew);
  for (int64_t c = begin; c < end; c++) {
    float total = 0;
    for (int64_t j = s->cell_starts[c]; j < s->cell_starts[c + 1]; j++)
      total += x[s->members[j]];
    team->sums[c] = total;
  }
  meet(&team->crew);
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
  meet(&team->crew);
  for (int64_t i = me->low; i < me->high; i++) y[i] = x[i] + team->coarse[s->cell[i]];
}

/* Where sums of chunks go: in turns, so that nobody overwrites what others still add up. */
static double *turned(Member *me) {
  const Team *team = me->team;
  return team->partial + (me->turn++ % 2) * (team->solve->steps + 1) * team->n_chunks;
}

/* Products of vector w with the first `count` of the basis, summed in fixed order. */
static void products(Member *me, int64_t count, const float *w, double *found) {
  Team *team = me->team;
  int64_t n = team->s->n, n_chunks = team->n_chunks;
  double *partial = turned(me);
  for (int64_t i = me->low; i < me->high; i += CHUNK)
    for (int64_t k = 0; k < count; k++)
      partial[k * n_chunks + i / CHUNK] =
          dot_single(team->basis + k * n + i, w + i, me->high - i < CHUNK ? me->high - i : CHUNK);
  meet(&team->crew);
  for (int64_t k = 0; k < count; k++) {
    found[k] = 0.0;
    for (int64_t c = 0; c < n_chunks; c++) found[k] += partial[k * n_chunks + c];
  }
}

/* w <- (w - the first `count` vectors of the basis times `along`) * factor. */
static void subtract(Member *me, int64_t count, const double *along, float factor, float *w) {
  int64_t n = me->team->s->n;
  for (int64_t i = me->low; i < me->high; i += CHUNK) {
    int64_t end = i + CHUNK < me->high ? i + CHUNK : me->high;
    for (int64_t k = 0; k < count; k++) {
      const float *v = me->team->basis + k * n;
      float share = along[k];
      for (int64_t j = i; j < end; j++) w[j] -= share * v[j];
    }
    for (int64_t j = i; j < end; j++) w[j] *= factor;
  }
}

/* Make vector j of the basis orthogonal to those before it, and of length one. `column`
 * gets its coefficients along them, and the length that was left. */
static void orthonormalise(Member *me, int64_t j, double *column) {
  float *w = me->team->basis + j * me->team->s->n;
  double along[j + 1], left;
  products(me, j + 1, w, along); /* the last is its own square */
  memcpy(column, along, j * sizeof(double));
  left = along[j];
  for (int64_t k = 0; k < j; k++) left -= along[k] * along[k];
  if (left < cbrt(FINEST) * along[j]) {
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
    float *v = team->basis + spent * n, *w = v + n;
    double *column = H + spent * width;
    correct(me, v, team->two);
    multiply_light(me, team->two, w);
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
  memset(team->one + me->low, 0, (me->high - me->low) * sizeof(float));
  subtract(me, size, target, 1, team->one);
  return spent;
}

static double length_of(Member *me, const real *x) {
  double *partial = turned(me), square = 0.0;
  for (int64_t i = me->low; i < me->high; i += CHUNK)
    partial[i / CHUNK] = dot_exact(x + i, x + i, me->high - i < CHUNK ? me->high - i : CHUNK);
  meet(&me->team->crew);
  for (int64_t c = 0; c < me->team->n_chunks; c++) square += partial[c];
  return sqrt(square);
}

/* residual = b - A x; its length. */
static double residual_of(Member *me) {
  const Solve *solve = me->team->solve;
  real *r = solve->residual;
  multiply(me, solve->x, r);
  for (int64_t i = me->low; i < me->high; i++) r[i] = solve->b[i] - r[i];
  return length_of(me, r);
}

/* Put together what `multiply_light` takes, for steps that make residuals `goal` times as
 * long: rows do without small entries, at most `goal` of their mass, and the rest of them
 * makes up for it. */
static void lighten(Member *me, double goal) {
  Team *team = me->team;
  const System *s = team->s;
  int64_t n = s->n, group = s->group, m = n * group, is_back = team->solve->is_transposed;
  if (!s->begins) {
    for (int64_t i = me->low; i < me->high; i++)
      for (int64_t j = 0; j < n; j++) {
        int64_t row = is_back ? j : i;
        const real *e = team->values + (is_back ? i * m + j * group : i * group * n + j);
        real found = 0;
        for (int64_t k = 0; k < group; k++) found += e[is_back ? k : k * n];
        team->light[i * n + j] = s->gamma * (s->scale ? s->scale[row] * found : found);
      }
    return;
  }
  int64_t longest = 1;
  for (int64_t row = 0; row < m; row++)
    longest = s->ends[row] - s->begins[row] > longest ? s->ends[row] - s->begins[row] : longest;
  real least = goal / longest; /* so that something of every row is left */
  for (int64_t row = me->low * group; row < me->high * group; row++) {
    int64_t count = s->ends[row] - s->begins[row], j = 0;
    const real *v = s->values + s->begins[row];
    Lanes totals = {0}, kepts = {0};
    for (; j + LANES <= count; j += LANES) {
      Lanes some = *(const Lanes *)(v + j);
      totals += some;
      kepts += (Lanes)((Bits)some & (some >= least));
    }
    double total = sum_of(totals), kept = sum_of(kepts);
    for (; j < count; j++) {
      total += v[j];
      kept += v[j] >= least ? v[j] : 0;
    }
    double share = s->gamma * (s->scale ? s->scale[row / group] : 1);
    team->share[row] = kept > 0 ? share * total / kept : share;
  }
  int64_t room = 3 * me->low; /* threads fill parts of their own */
  if (is_back)
    room += s->back_starts[me->low];
  else
    for (int64_t row = 0; row < me->low * group; row++) room += s->ends[row] - s->begins[row];
  const int32_t *columns = is_back ? s->back_columns : s->columns;
  for (int64_t i = me->low; i < me->high; i++) {
    team->light_begins[i] = room;
    for (int64_t row = i * group; row < (is_back ? i * group + 1 : (i + 1) * group); row++) {
      int64_t e = is_back ? s->back_starts[i] : s->begins[row];
      int64_t end = is_back ? s->back_starts[i + 1] : s->ends[row];
      float share = is_back ? 1 : team->share[row];
      for (; e < end; e++) {
        team->light[room] = share * (float)team->values[e];
        team->light_columns[room] = columns[e];
        room += team->values[e] >= least;
      }
    }
    for (; (room - team->light_begins[i]) % 4; room++) {
      team->light[room] = 0; /* so that rows are of whole fours */
      team->light_columns[room] = 0;
    }
    team->light_ends[i] = room;
  }
}

/* Entries of E' in order: this thread's rows. */
static void lay_out(Member *me) {
  Team *team = me->team;
  const System *s = team->s;
  if (team->solve->is_transposed && s->back_starts)
    for (int64_t e = s->back_starts[me->low]; e < s->back_starts[me->high]; e++)
      team->back_values[e] = s->values[s->back_source[e]];
}

/* What thread number `first` of a team does. */
static void solve_part(const void *job, int64_t first, int64_t last) {
  Team *team = (Team *)job;
  const Solve *solve = team->solve;
  int64_t n = team->s->n, cells = team->s->n_cells, size = crew_size(&team->crew);
  int64_t high = team->n_chunks * last / size * CHUNK;
  Member self = {team, team->n_chunks * first / size * CHUNK, high < n ? high : n,
                 cells * first / size, cells * last / size, 0};
  Member *me = &self;
  lay_out(me);
  double tolerance = solve->rtol * length_of(me, solve->b), finest = 1e2 * FINEST;
  double norm = residual_of(me);
  int64_t matvecs = 1, is_light = 0;
  while (norm > tolerance && matvecs < solve->max_matvecs && isfinite(norm)) {
    int64_t most = solve->max_matvecs - matvecs;
    double goal = MARGIN * tolerance / norm, previous = norm;
    goal = goal > finest ? goal : finest;
    if (!is_light++) lighten(me, goal);
    for (int64_t i = me->low; i < me->high; i++) team->basis[i] = solve->residual[i] / norm;
    matvecs += 1 + least_residual(me, goal, most < solve->steps ? most : solve->steps);
    correct(me, team->one, team->two);
    for (int64_t i = me->low; i < me->high; i++) solve->x[i] += norm * team->two[i];
    norm = residual_of(me);
    if (norm > 0.999 * previous) break; /* it stagnates */
  }
  if (first == 0) {
    solve->outcome[0] = matvecs;
    solve->outcome[1] = norm;
    solve->outcome[2] = tolerance;
  }
}

/* A piece of the room that there is, if there is any yet, and how much was taken of it. */
static void *take(char *room, size_t *taken, size_t bytes) {
  void *found = room ? room + *taken : NULL;
  *taken += (bytes + 63) & ~(size_t)63;
  return found;
}

/* Memory for a team out of `room`. */
static void equip(Team *team, char *room, size_t *taken) {
  const System *s = team->s;
  int64_t n = s->n, m = n * s->group, width = team->solve->steps + 1;
  int64_t is_back = team->solve->is_transposed;
  int64_t count = s->back_starts ? s->back_starts[n] : 0, n_light = count + 3 * n + 1;
  team->partial = take(room, taken, 2 * width * team->n_chunks * sizeof(double));
  team->wide = take(room, taken, m * sizeof(real));
  team->basis = take(room, taken, (width + 2) * n * sizeof(float));
  team->one = team->basis + width * n;
  team->two = team->one + n;
  team->sums = take(room, taken, 2 * s->n_cells * sizeof(float));
  team->coarse = team->sums + s->n_cells;
  team->values = is_back ? s->back_values : s->values;
  if (!count) {
    team->light = take(room, taken, n * n * sizeof(float));
    return;
  }
  if (is_back) team->values = team->back_values = take(room, taken, count * sizeof(real));
  team->share = take(room, taken, 2 * m * sizeof(float));
  team->spread = team->share + m;
  team->light = take(room, taken, n_light * sizeof(float));
  team->light_columns = take(room, taken, n_light * sizeof(int32_t));
  team->light_begins = take(room, taken, 2 * n * sizeof(int32_t));
  team->light_ends = team->light_begins + n;
}

/* What the teams from `first` to `last` are there for. */
static void run_teams(const void *job, int64_t first, int64_t last) {
  for (Team *team = (Team *)job + first; first < last; first++, team++)
    in_step(solve_part, team, &team->crew, team->wanted);
}

/* Both systems, from where their x are, in a room of so many bytes as this returns; without
 * a room that is all it does. */
int64_t nopg_solve_pair(const System *s, const Solve *q, const Solve *mu, char *room,
                        int64_t n_threads) {
  int64_t n_chunks = (s->n + CHUNK - 1) / CHUNK, each = n_threads / 2;
  each = each < MOST_THREADS ? each : MOST_THREADS;
  Team teams[] = {{.s = s, .solve = q, .wanted = each, .n_chunks = n_chunks},
                  {.s = s, .solve = mu, .wanted = each, .n_chunks = n_chunks}};
  size_t taken = 0;
  for (int i = 0; i < 2; i++) equip(&teams[i], room, &taken);
  if (room) in_parts(run_teams, teams, 2, n_threads < 2 ? 1 : 2);
  return taken;
}

/* The coarse inverse in the making, (n_cells, n_cells). */
typedef struct {
  const System *s;
  float *core;
  Crew crew;
} Coarse;

#define PANEL 16 /* rows that are eliminated together: the others are read once for them */

/* I - gamma R P Z, rows of cells from `first` to `last`. */
static void cell_means(const System *s, float *core, int64_t first, int64_t last) {
  int64_t C = s->n_cells, group = s->group, n = s->n;
  double sums[C];
  for (int64_t c = first; c < last; c++) {
    double size = s->cell_starts[c + 1] - s->cell_starts[c];
    memset(sums, 0, sizeof sums);
    for (int64_t j = s->cell_starts[c]; j < s->cell_starts[c + 1]; j++) {
      int64_t i = s->members[j];
      double scale = s->scale ? s->scale[i] : 1.0;
      for (int64_t row = i * group; row < (i + 1) * group; row++) {
        int64_t e = s->begins ? s->begins[row] : row * n;
        for (int64_t end = s->begins ? s->ends[row] : (row + 1) * n; e < end; e++)
          sums[s->cell[s->columns ? s->columns[e] : e % n]] += scale * s->values[e];
      }
    }
    for (int64_t j = 0; j < C; j++) core[c * C + j] = (j == c) - s->gamma * sums[j] / size;
  }
}

/* y -= sum_k a_k rows_k, of `count` rows of C numbers. */
static void eliminate(float *y, const float *a, const float *rows, int64_t count, int64_t C) {
  int64_t j = 0;
  for (; j + 32 <= C; j += 32) {
    Four *to = (Four *)(y + j), kept[8];
    for (int l = 0; l < 8; l++) kept[l] = to[l];
    for (int64_t k = 0; k < count; k++) {
      const Four *from = (const Four *)(rows + k * C + j);
      for (int l = 0; l < 8; l++) kept[l] -= from[l] * a[k];
    }
    for (int l = 0; l < 8; l++) to[l] = kept[l];
  }
  for (; j < C; j++)
    for (int64_t k = 0; k < count; k++) y[j] -= a[k] * rows[k * C + j];
}

/* D = A^-1 of the first `count` rows, their numbers from `at` on, of a dominant diagonal. */
static void invert_small(const float *A, int64_t C, int64_t at, int64_t count, double *D) {
  for (int64_t i = 0; i < count; i++)
    for (int64_t j = 0; j < count; j++) D[i * count + j] = A[i * C + at + j];
  for (int64_t p = 0; p < count; p++) {
    double pivot = 1.0 / D[p * count + p];
    D[p * count + p] = 1.0;
    for (int64_t j = 0; j < count; j++) D[p * count + j] *= pivot;
    for (int64_t i = 0; i < count; i++) {
      double factor = D[i * count + p];
      if (i == p) continue;
      D[i * count + p] = 0.0;
      for (int64_t j = 0; j < count; j++) D[i * count + j] -= factor * D[p * count + j];
    }
  }
}

/* What thread number `first` does: Gauss and Jordan, in place, some rows at a time. */
static void coarse_part(const void *job, int64_t first, int64_t last) {
  Coarse *all = (Coarse *)job;
  const System *s = all->s;
  int64_t C = s->n_cells, size = crew_size(&all->crew);
  int64_t low = C * first / size, high = C * last / size;
  float panel[PANEL * C], own[PANEL];
  double D[PANEL * PANEL];
  cell_means(s, all->core, low, high);
  for (int64_t at = 0; at < C; at += PANEL) {
    int64_t count = C - at < PANEL ? C - at : PANEL;
    meet(&all->crew);
    invert_small(all->core + at * C, C, at, count, D);
    memset(panel, 0, sizeof panel);
    for (int64_t r = 0; r < count; r++) {
      for (int64_t k = 0; k < count; k++) own[k] = -D[r * count + k];
      eliminate(panel + r * C, own, all->core + at * C, count, C);
      for (int64_t k = 0; k < count; k++) panel[r * C + at + k] = D[r * count + k];
    }
    meet(&all->crew); /* everybody has what is overwritten now */
    for (int64_t i = low; i < high; i++) {
      float *row = all->core + i * C;
      if (i >= at && i < at + count) {
        memcpy(row, panel + (i - at) * C, C * sizeof(float));
        continue;
      }
      memcpy(own, row + at, count * sizeof(float));
      memset(row + at, 0, count * sizeof(float));
      eliminate(row, own, panel, count, C);
    }
  }
  meet(&all->crew);
  for (int64_t i = low; i < high; i++)
    for (int64_t j = 0; j < C; j++)
      all->core[i * C + j] = (all->core[i * C + j] - (i == j)) / (s->cell_starts[j + 1] - s->cell_starts[j]);
}

/* ((I - gamma R P Z)^-1 - I) D^-1, (n_cells, n_cells); whether all of it is a number. */
int64_t nopg_coarse_core(const System *s, float *core, int64_t n_threads) {
  Coarse job = {.s = s, .core = core};
  int64_t is_finite = 1;
  in_step(coarse_part, &job, &job.crew, n_threads < s->n_cells ? n_threads : s->n_cells);
  for (int64_t i = 0; i < s->n_cells * s->n_cells; i++) is_finite &= isfinite(core[i]) != 0;
  return is_finite;
}
