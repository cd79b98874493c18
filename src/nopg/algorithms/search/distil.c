/* Steps of Adam on the error of a perceptron, all in one call: what `Lesson.learn` does with
 * torch, thousands of times.
 *
 * Rows of a batch are taken PART at a time by a team of threads, and what the parts say is
 * added up in their order: the digits do not depend on the number of threads. Layers are as
 * wide as a multiple of EIGHT here; what is filled up is zero and stays so.
 */
#include "shared.h"

#define PART 32       /* rows, whole blocks of a product */
#define EIGHT 8       /* rows and columns of a block of a product, which fill the registers */
#define LINE 16       /* numbers that no two threads share: loops of compilers end in other sums */

/* Floats in a register. */
#if defined(__AVX__)
#define WIDE 8
#else
#define WIDE 4
#endif
typedef float Floats __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef float Sixteen __attribute__((vector_size(64), aligned(4), may_alias)); /* of AVX-512 */

typedef struct {
  int64_t n_layers, n_rows, n_steps, n_wanted, is_discrete, has_bias;
  double momentum, memory, eps; /* of Adam: the decay of means and of squares */
  const int64_t *widths;        /* (n_layers + 1) */
  const float *x, *wanted, *weights;  /* of all targets, (n, ...) */
  const float *span, *middle, *half;  /* (n_wanted); the last two null if nothing is squashed */
  const int64_t *rows;                /* (n_steps, n_rows), or null: all, in order */
  const double *rates, *roots;        /* of each step: its length, and sqrt(1 - memory^t) */
  float *parameters; /* of the layers in turn, weights (in, out) and biases; to be changed */
} Lesson;

typedef struct {
  const Lesson *lesson;
  int64_t n_parts, n_parameters, widest;
  int64_t *widths, *begins; /* filled up; where each layer's parameters begin */
  float *parameters, *means, *squares;
  float *slopes; /* (n_parts, n_parameters) */
  float *rooms;  /* of each thread, (n_layers + 2, PART, widest) and weights the other way */
  int64_t n_room;
  Crew crew;
} Team;

static int64_t filled(int64_t width) { return (width + EIGHT - 1) / EIGHT * EIGHT; }

/* made += x times the rows at b, EIGHT of them each; `by_row` is from one x to the next. */
static inline __attribute__((always_inline)) void rank_one(const float *x, int64_t by_row,
                                                           const float *b,
                                                           Floats made[EIGHT][EIGHT / WIDE]) {
  for (int p = 0; p < EIGHT / WIDE; p++) {
    Floats there = *(const Floats *)(b + p * WIDE);
#pragma GCC unroll 8
    for (int l = 0; l < EIGHT; l++) made[l][p] += x[l * by_row] * there;
  }
}

#if defined(__aarch64__)
/* The same where a product takes any number of a register: x are read in fours. */
#define READ(to, from)           \
  Floats to = *(const Floats *)(from); \
  __asm__("" : "+w"(to))
static inline __attribute__((always_inline)) void rank_one_of(const Floats *x, int at, int64_t by,
                                                              const float *b,
                                                              Floats made[EIGHT][EIGHT / WIDE]) {
  for (int p = 0; p < EIGHT / WIDE; p++) {
    Floats there = *(const Floats *)(b + p * WIDE);
#pragma GCC unroll 8
    for (int l = 0; l < EIGHT; l++)
      made[l][p] += (by ? x[l / WIDE][l % WIDE] : x[l][at]) * there;
  }
}
#endif

/* c = a b, or a row more than that; a is (n, k), its rows or its columns in order, and b and c
 * lie in order. All sizes are multiples of EIGHT. */
static inline __attribute__((always_inline)) void multiply(const float *a, int64_t by_row,
                                                           const int is_turned, const float *b,
                                                           float *c, int64_t n, int64_t k,
                                                           int64_t m, const float *more) {
  static const float none[16];
  for (int64_t i = 0; i < n; i += EIGHT)
    for (int64_t j = 0; j < m; j += EIGHT) {
      const float *first = more ? more + j : none, *at = b + j;
#ifdef __AVX512F__ /* twice as many columns, the same sums */
      if (j + 16 <= m) {
        const float *from = is_turned ? a + i : a + i * by_row;
        Sixteen wide[EIGHT];
#pragma GCC unroll 8
        for (int l = 0; l < EIGHT; l++) wide[l] = *(const Sixteen *)first;
        for (int64_t t = 0; t < k; t++, at += m, from += is_turned ? by_row : 1) {
          Sixteen there = *(const Sixteen *)at;
#pragma GCC unroll 8
          for (int l = 0; l < EIGHT; l++) wide[l] += from[is_turned ? l : l * by_row] * there;
        }
#pragma GCC unroll 8
        for (int l = 0; l < EIGHT; l++) *(Sixteen *)(c + (i + l) * m + j) = wide[l];
        j += EIGHT;
        continue;
      }
#endif
      Floats made[EIGHT][EIGHT / WIDE];
#pragma GCC unroll 8
      for (int l = 0; l < EIGHT; l++)
        for (int p = 0; p < EIGHT / WIDE; p++) made[l][p] = *(const Floats *)(first + p * WIDE);
      if (is_turned) {
        for (int64_t t = 0; t < k; t++, at += m) {
          const float *from = a + t * by_row + i;
#if defined(__aarch64__)
          READ(one, from);
          READ(two, from + WIDE);
          const Floats x[] = {one, two};
          rank_one_of(x, 0, 1, at, made);
#else
          rank_one(from, 1, at, made);
#endif
        }
      } else {
        const float *from = a + i * by_row;
#if defined(__aarch64__)
        for (int64_t t = 0; t < k; t += WIDE, from += WIDE) {
          READ(x0, from);
          READ(x1, from + by_row);
          READ(x2, from + 2 * by_row);
          READ(x3, from + 3 * by_row);
          READ(x4, from + 4 * by_row);
          READ(x5, from + 5 * by_row);
          READ(x6, from + 6 * by_row);
          READ(x7, from + 7 * by_row);
          const Floats x[] = {x0, x1, x2, x3, x4, x5, x6, x7};
#pragma GCC unroll 4
          for (int l = 0; l < WIDE; l++, at += m) rank_one_of(x, l, 0, at, made);
        }
#else
        for (int64_t t = 0; t < k; t++, at += m) rank_one(from + t, by_row, at, made);
#endif
      }
#pragma GCC unroll 8
      for (int l = 0; l < EIGHT; l++)
        for (int p = 0; p < EIGHT / WIDE; p++)
          *(Floats *)(c + (i + l) * m + j + p * WIDE) = made[l][p];
    }
}

/* How the error falls with the raw outputs of a row, in place of these. */
static void misfit(const Lesson *given, int64_t row, float *raw, int64_t width) {
  int64_t k = given->n_wanted;
  const float *wanted = given->wanted + row * k;
  float share = given->weights[row] / given->n_rows;
  if (given->is_discrete) {
    float top = raw[0], mass = 0.0f, total = 0.0f;
    for (int64_t j = 1; j < k; j++) top = raw[j] > top ? raw[j] : top;
    for (int64_t j = 0; j < k; j++) {
      raw[j] = expf(raw[j] - top);
      mass += raw[j];
      total += wanted[j];
    }
    for (int64_t j = 0; j < k; j++) raw[j] = share * (wanted[j] - total * raw[j] / mass);
  } else {
    for (int64_t j = 0; j < k; j++) {
      float acted = raw[j], bend = 1.0f, span = given->span[j];
      if (given->half) {
        float bent = tanhf(acted);
        acted = given->middle[j] + given->half[j] * bent;
        bend = given->half[j] * (1.0f - bent * bent);
      }
      raw[j] = (-2.0f / k) * share * ((acted - wanted[j]) / span) * bend / span;
    }
  }
  for (int64_t j = k; j < width; j++) raw[j] = 0.0f; /* deviations are behind, if any */
}

/* What one part of a batch says about every parameter. */
static void part_slopes(const Team *team, int64_t step, int64_t part, float *room,
                        const float *back) {
  const Lesson *given = team->lesson;
  const int64_t *widths = team->widths, *rows = given->rows, L = given->n_layers;
  int64_t first = part * PART, count = given->n_rows - first, d = given->widths[0];
  count = count < PART ? count : PART;
  int64_t n = filled(count), size = PART * team->widest;
  if (rows) rows += step * given->n_rows;
  memset(room, 0, n * widths[0] * sizeof(float));
  for (int64_t i = 0; i < count; i++) {
    int64_t row = rows ? rows[first + i] : first + i;
    memcpy(room + i * widths[0], given->x + row * d, d * sizeof(float));
  }
  for (int64_t l = 0; l < L; l++) {
    const float *weights = team->parameters + team->begins[l], *x = room + l * size;
    float *made = room + (l + 1) * size;
    int64_t from = widths[l], to = widths[l + 1];
    multiply(x, from, 0, weights, made, n, from, to, weights + from * to);
    if (l + 1 < L)
      for (int64_t i = 0; i < n * to; i++) made[i] = made[i] > 0.0f ? made[i] : 0.0f;
  }
  float *slope = room + L * size, *next = slope + size;
  for (int64_t i = 0; i < count; i++)
    misfit(given, rows ? rows[first + i] : first + i, slope + i * widths[L], widths[L]);
  memset(slope + count * widths[L], 0, (n - count) * widths[L] * sizeof(float));
  for (int64_t l = L - 1; l >= 0; l--) {
    float *slopes = team->slopes + part * team->n_parameters + team->begins[l];
    const float *x = room + l * size;
    int64_t from = widths[l], to = widths[l + 1];
    multiply(x, from, 1, slope, slopes, from, n, to, NULL);
    slopes += from * to;
    memset(slopes, 0, to * sizeof(float));
    if (given->has_bias)
      for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < to; j++) slopes[j] += slope[i * to + j];
    if (!l) break;
    multiply(slope, to, 0, back + team->begins[l], next, n, to, from, NULL);
    for (int64_t i = 0; i < n * from; i++) next[i] = x[i] > 0.0f ? next[i] : 0.0f;
    float *swap = slope;
    slope = next;
    next = swap;
  }
}

/* A step of Adam along some of the parameters. */
static void ascend(const Team *team, int64_t step, int64_t first, int64_t last) {
  const Lesson *given = team->lesson;
  const float b1 = given->momentum, b2 = given->memory, c1 = 1.0 - given->momentum;
  const float c2 = 1.0 - given->memory, eps = given->eps, root = given->roots[step];
  const float rate = given->rates[step];
  float *means = team->means, *squares = team->squares, *parameters = team->parameters;
  for (int64_t p = 1; p < team->n_parts; p++)
    for (int64_t i = first; i < last; i++)
      team->slopes[i] += team->slopes[p * team->n_parameters + i];
  for (int64_t i = first; i < last; i++) {
    float slope = team->slopes[i];
    means[i] = b1 * means[i] + c1 * slope;
    squares[i] = b2 * squares[i] + c2 * slope * slope;
    parameters[i] += rate * means[i] / (sqrtf(squares[i]) / root + eps);
  }
}

/* What thread number `first` of a team does. */
static void learn(const void *job, int64_t first, int64_t last) {
  Team *team = (Team *)job;
  const Lesson *given = team->lesson;
  int64_t size = crew_size(&team->crew), n = team->n_parts, m = team->n_parameters;
  float *room = team->rooms + first * team->n_room;
  float *back = room + (given->n_layers + 2) * PART * team->widest;
  for (int64_t step = 0; step < given->n_steps; step++) {
    for (int64_t l = 1; l < given->n_layers; l++) {
      const float *weights = team->parameters + team->begins[l];
      int64_t from = team->widths[l], to = team->widths[l + 1];
      for (int64_t i = 0; i < from; i++)
        for (int64_t j = 0; j < to; j++)
          back[team->begins[l] + j * from + i] = weights[i * to + j];
    }
    for (int64_t part = n * first / size; part < n * last / size; part++)
      part_slopes(team, step, part, room, back);
    meet(&team->crew);
    ascend(team, step, m / LINE * first / size * LINE, m / LINE * last / size * LINE);
    meet(&team->crew);
  }
}

/* Parameters of the policy into those of the team, which are filled up, or back. */
static void copy(const Team *team, int is_back) {
  const Lesson *given = team->lesson;
  float *own = given->parameters;
  for (int64_t l = 0; l < given->n_layers; l++)
    for (int64_t i = 0; i <= given->widths[l]; i++) { /* the bias comes last */
      int64_t row = i < given->widths[l] ? i : team->widths[l], width = given->widths[l + 1];
      float *ours = team->parameters + team->begins[l] + row * team->widths[l + 1];
      memcpy(is_back ? own : ours, is_back ? ours : own, width * sizeof(float));
      own += width;
    }
}

/* All steps of a lesson; whether there was memory for them. */
int64_t nopg_distil(const Lesson *given, int64_t n_threads) {
  int64_t L = given->n_layers, widths[L + 1], begins[L];
  Team team = {.lesson = given, .widths = widths, .begins = begins};
  team.n_parts = (given->n_rows + PART - 1) / PART;
  for (int64_t l = 0; l <= L; l++) {
    widths[l] = filled(given->widths[l]);
    team.widest = widths[l] > team.widest ? widths[l] : team.widest;
    if (l < L) begins[l] = team.n_parameters;
    if (l < L) team.n_parameters += (widths[l] + 1) * filled(given->widths[l + 1]);
  }
  team.n_parameters = (team.n_parameters + LINE - 1) / LINE * LINE;
  n_threads = n_threads < team.n_parts ? n_threads : team.n_parts;
  n_threads = n_threads < 1 ? 1 : n_threads < MOST_THREADS ? n_threads : MOST_THREADS;
  team.n_room = (L + 2) * PART * team.widest + team.n_parameters;
  int64_t count = (3 + team.n_parts) * team.n_parameters + n_threads * team.n_room;
  void *memory;
  if (posix_memalign(&memory, LINE * sizeof(float), count * sizeof(float))) return 0;
  memset(memory, 0, count * sizeof(float));
  team.parameters = memory;
  team.means = team.parameters + team.n_parameters;
  team.squares = team.means + team.n_parameters;
  team.slopes = team.squares + team.n_parameters;
  team.rooms = team.slopes + team.n_parts * team.n_parameters;
  copy(&team, 0);
  in_step(learn, &team, &team.crew, n_threads);
  copy(&team, 1);
  free(memory);
  return 1;
}
