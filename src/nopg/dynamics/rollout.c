/* Steps of policies in a learned model, path by path: what `ArrayTransitionModel.step`
 * and `ArrayPolicies.act` compute, without a call for every operation.
 *
 * Kernels and waves are evaluated eight at a time with the vector types of gcc and clang, as
 * wide as the machine's: wider ones would go to memory and back at every operation.
 * A path is computed by itself: its digits do not depend on which others there are, nor
 * on how they are shared among threads.
 */
#include "act.h"

#define LANES 8
#define TOGETHER 4 /* paths that are predicted side by side */
#define NEAR 25.0 /* e^-25, a hundred billionth: what is so much farther off does not count */
#if defined(__AVX512F__)
#define WIDE 8
#elif defined(__AVX__)
#define WIDE 4
#else
#define WIDE 2
#endif
#define EACH for (int p = 0; p < LANES / WIDE; p++)
typedef double part __attribute__((vector_size(8 * WIDE)));
typedef int64_t ipart __attribute__((vector_size(8 * WIDE)));
typedef struct {
  part of[LANES / WIDE];
} vec;

typedef struct {
  /* Columns: state, present, action, both, with angles of these, targets. */
  int64_t d_s, d_p, d_a, d, d_z, q;
  /* Process: draws of a linear mean, kernels and waves; counts are multiples of LANES. */
  int64_t n_draws, n_curved, n_waves;
  const double *centre, *factor; /* (d_z), as d is in all of the process */
  const double *linear;          /* (n_draws, 1 + d, q) */
  const int64_t *target, *count;    /* (n_curved), its column and its kernels */
  const double *inverse_scales;  /* (n_curved, d) */
  const double *points;          /* of each target (count / LANES, d, LANES), scaled */
  const double *offsets;         /* of each target (count), -|point|^2 / 2 */
  const double *weights;         /* of each draw and target (count) */
  const double *frequencies;     /* of each target (n_waves / LANES, d, LANES) */
  const double *phases;          /* (n_curved, n_waves) */
  const double *wave_weights;    /* (n_draws, n_curved, n_waves) */
  /* Noise; log_std is (2 d + 1, d_p), null without noise. */
  const double *noise_centre, *noise_factor, *log_std, *log_low, *log_high, *mixing;
  /* The past: columns of (state, action) that are copied, the first of them subtracted. */
  const int64_t *copied;
  int64_t n_copied, n_changes;
  /* Bounds. */
  const double *low, *high, *below, *above; /* (d_s) */
  const unsigned char *stops, *is_set;      /* (2, d_s), (2, d_s, d_s) */
  const double *set_to;                     /* (2, d_s, d_s) */
  int64_t has_stops, n_angles;
  const int64_t *angles; /* (n_angles, 2) */
  const int64_t *turned; /* (d_z - d, 3), the angles atan2(sign y, sign x) */
  double reward_low, reward_high;
  /* Termination: Nadaraya-Watson over n_points, a multiple of LANES; 0 for none. */
  int64_t n_points;
  const double *end_factor;  /* (d_p) */
  const double *end_points;  /* (d_p, n_points) */
  const double *end_offsets; /* (n_points) */
  const double *ended, *end_rewards;
  int64_t n_ending; /* the first so many, a multiple of LANES, are all ends among them */
} Model;

typedef struct {
  Perceptrons net;
  const double *given; /* (n_steps, n_paths, d_a), recorded actions instead; or null */
  /* What is added to them, gains (state - around) within (2, d_a) limits; or null:
   * (n_steps, n_paths, d_s) and (n_steps, n_paths, d_a, d_s). */
  const double *around, *gains, *limits;
} Policies;

static part splat(double x) { return x - (part){0}; }

static vec load(const double *x) {
  vec v;
  EACH memcpy(&v.of[p], x + p * WIDE, sizeof(part)); /* stays in registers */
  return v;
}

static void store(double *x, vec v) {
  EACH memcpy(x + p * WIDE, &v.of[p], sizeof(part));
}

static vec plus(vec a, double x) {
  EACH a.of[p] += x;
  return a;
}

static vec plus_times(vec a, double x, vec b) {
  EACH a.of[p] += x * b.of[p];
  return a;
}

static vec plus_product(vec a, vec b, vec c) {
  EACH a.of[p] += b.of[p] * c.of[p];
  return a;
}

static double sum(vec v) {
  double x[LANES];
  store(x, v);
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

static double sum_part(part v) {
  double total = 0.0;
  for (int i = 0; i < WIDE; i++) total += v[i];
  return total;
}

/* Where `is_so`, a; elsewhere b. */
static part choose(ipart is_so, part a, part b) {
  return (part)((is_so & (ipart)a) | (~is_so & (ipart)b));
}

/* 2^n e^r with |r| <= ln 2 / 2: Taylor's series to the last bit. */
static part exp_part(part x) {
  const part round = splat(0x1.8p52), low = splat(-700.0);
  x = choose(x < low, low, x);
  part shifted = x * 1.4426950408889634 + round, n = shifted - round;
  part r = (x - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
  part y = splat(1.0 / 479001600.0);
  const double c[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                      1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                      1.0 / 6,        0.5,           1.0,          1.0};
  for (int i = 0; i < 12; i++) y = y * r + c[i];
  return y * (part)(((ipart)shifted - (ipart)round + 1023) << 52);
}

static inline __attribute__((always_inline)) vec exp_of(vec x) {
  EACH x.of[p] = exp_part(x.of[p]);
  return x;
}

/* cos(pi (y - n)) = (-1)^n cos(x) with y = x / pi and |y - n| <= 1/2. */
static inline __attribute__((always_inline)) vec cos_of(vec x) {
  const part round = splat(0x1.8p52);
  /* In the square, meeting it at Chebyshev's points: right to the last bit. */
  const double c[] = {-1.1464689885720029e-11, 2.0876630867422994e-09, -2.755731776732053e-07,
                      2.4801587292446213e-05,  -0.0013888888888860709, 0.04166666666666634,
                      -0.5,                    1.0};
  EACH {
    part shifted = x.of[p] * 0.3183098861837907 + round, n = shifted - round;
    part r = (x.of[p] - n * 0x1.921fb544p+1) - n * 0x1.0b4611a626331p-33;
    part s = r * r, y = splat(4.6276759850181716e-14);
    for (int i = 0; i < 8; i++) y = y * s + c[i];
    ipart odd = ((ipart)shifted - (ipart)round) << 63;
    x.of[p] = (part)((ipart)y ^ odd);
  }
  return x;
}

/* State and action, and angles of these. */
static void fill(const Model *m, const double *state, const double *action,
                 double *input) {
  memcpy(input, state, m->d_s * sizeof(double));
  memcpy(input + m->d_s, action, m->d_a * sizeof(double));
  for (int64_t k = 0; k < m->d_z - m->d; k++) {
    const int64_t *turn = m->turned + 3 * k;
    input[m->d + k] = atan2(turn[2] * input[turn[1]], turn[2] * input[turn[0]]);
  }
}

/* Sums of z times (d, LANES) columns x, of each of `count` paths added to its e. */
static inline __attribute__((always_inline)) void along(int count, int64_t d, const double *z,
                                                        int64_t width, const double *x, vec *e) {
  for (int64_t i = 0; i < d; i++) {
    vec there = load(x + i * LANES);
    for (int k = 0; k < count; k++) e[k] = plus_times(e[k], z[k * width + i], there);
  }
}

/* The mean of a Gaussian process, or a draw: linear part, kernels and waves. Of `count`
 * paths side by side, `width` apart: what they share is read once for all. */
static inline __attribute__((always_inline)) void predict(const Model *m, const int count,
                                                          const int64_t *draw, int64_t width,
                                                          const double *input, double *out,
                                                          double *z, double *scaled) {
  int64_t d = m->d_z, q = m->q, n_kernels = 0, done = 0, n_waves = m->n_waves;
  for (int64_t c = 0; c < m->n_curved; c++) n_kernels += m->count[c];
  for (int k = 0; k < count; k++) {
    const double *linear = m->linear + draw[k] * (1 + d) * q;
    double *at = z + k * width, *to = out + k * width;
    for (int64_t i = 0; i < d; i++) at[i] = (input[k * width + i] - m->centre[i]) * m->factor[i];
    memcpy(to, linear, q * sizeof(double));
    for (int64_t i = 0; i < d; i++)
      for (int64_t j = 0; j < q; j++) to[j] += at[i] * linear[(1 + i) * q + j];
  }
  for (int64_t c = 0; c < m->n_curved; c++) {
    int64_t n = m->count[c];
    double half[TOGETHER] = {0};
    vec total[TOGETHER] = {0}, e[TOGETHER];
    for (int k = 0; k < count; k++)
      for (int64_t i = 0; i < d; i++) {
        double one = scaled[k * width + i] = z[k * width + i] * m->inverse_scales[c * d + i];
        half[k] += 0.5 * one * one;
      }
    for (int64_t j = done; j < done + n; j += LANES) {
      for (int k = 0; k < count; k++) e[k] = plus(load(m->offsets + j), -half[k]);
      along(count, d, scaled, width, m->points + j * d, e);
      for (int k = 0; k < count; k++)
        total[k] = plus_product(total[k], load(m->weights + draw[k] * n_kernels + j), exp_of(e[k]));
    }
    done += n;
    for (int64_t j = c * n_waves; j < (c + 1) * n_waves; j += LANES) {
      for (int k = 0; k < count; k++) e[k] = load(m->phases + j);
      along(count, d, z, width, m->frequencies + j * d, e);
      for (int k = 0; k < count; k++) {
        const double *w = m->wave_weights + draw[k] * m->n_curved * n_waves + j;
        total[k] = plus_product(total[k], load(w), cos_of(e[k]));
      }
    }
    for (int k = 0; k < count; k++) out[k * width + m->target[c]] += sum(total[k]);
  }
}

/* Log of a column's deviation before its limits, and the gust in units of it. */
static double log_level(const Model *m, int64_t j, const double *input,
                        const double *draws, double *gust) {
  int64_t d = m->d, p = m->d_p;
  double level = m->log_std[2 * d * p + j];
  for (int64_t i = 0; i < d; i++) {
    double z = (input[i] - m->noise_centre[i]) * m->noise_factor[i];
    level += z * (z * m->log_std[i * p + j] + m->log_std[(d + i) * p + j]);
  }
  *gust = 0.0;
  for (int64_t i = 0; i <= j; i++) *gust += m->mixing[j * p + i] * draws[i];
  return level;
}

static void disturb(const Model *m, const double *input, const double *draws,
                    double *reached) {
  for (int64_t j = 0; j < m->d_p; j++) {
    double gust, level = log_level(m, j, input, draws, &gust);
    reached[j] += exp(fmin(fmax(level, m->log_low[j]), m->log_high[j])) * gust;
  }
}

/* The state within bounds, with what saturation sets. */
static void clip(const Model *m, const double *reached, double *after) {
  int64_t n = m->d_s;
  memcpy(after, reached, n * sizeof(double));
  for (int64_t side = 0; m->has_stops && side < 2; side++)
    for (int64_t i = 0; i < n; i++) {
      int is_beyond = side ? reached[i] >= m->high[i] : reached[i] <= m->low[i];
      if (!m->stops[side * n + i] || !is_beyond) continue;
      for (int64_t j = 0; j < n; j++)
        if (m->is_set[(side * n + i) * n + j])
          after[j] = m->set_to[(side * n + i) * n + j];
    }
  for (int64_t i = 0; i < n; i++) after[i] = fmin(fmax(after[i], m->low[i]), m->high[i]);
}

/* How far a column is beyond its bounds, in typical steps; 0 where it saturates. */
static double beyond(const Model *m, int64_t i, double x, double *unit) {
  double inside = fmin(fmax(x, m->low[i]), m->high[i]);
  *unit = x < inside ? m->below[i] : m->above[i];
  return x == inside ? 0.0 : (x - inside) * *unit;
}

/* The state within bounds and on its circles; the probability of having left the data. */
static double project(const Model *m, const double *reached, double *after) {
  double far = 0.0, unit;
  clip(m, reached, after);
  for (int64_t i = 0; i < m->d_s; i++) {
    double x = beyond(m, i, reached[i], &unit);
    far += x * x;
  }
  for (int64_t i = 0; i < m->n_angles; i++) {
    double *x = after + m->angles[2 * i], *y = after + m->angles[2 * i + 1];
    double radius = fmax(sqrt(*x * *x + *y * *y), 1e-9);
    *x /= radius;
    *y /= radius;
  }
  return -expm1(-0.5 * far);
}

static double largest(vec v) {
  double x[LANES], most = -INFINITY;
  store(x, v);
  for (int i = 0; i < LANES; i++) most = fmax(most, x[i]);
  return most;
}

/* Whether any of them is larger than x. */
static inline int any_above(vec v, double x) {
  ipart found = {0};
  EACH found |= v.of[p] > splat(x);
  int64_t any = 0;
  for (int i = 0; i < WIDE; i++) any |= found[i];
  return any != 0;
}

/* How near the state is to the LANES points from j on. */
static inline vec scores_of(const Model *m, const double *at, int64_t j) {
  vec e = load(m->end_offsets + j);
  for (int64_t i = 0; i < m->d_p; i++)
    e = plus_times(e, at[i], load(m->end_points + i * m->n_points + j));
  return e;
}

/* Probability of an end and what it pays; returns the largest of the scores. Far from all
 * ends both are 0: some other point is so much nearer, most often the one `beside` the state
 * before. */
static double terminate(const Model *m, const double *state, double *scores, int64_t *beside,
                        double *share, double *reward) {
  int64_t n = m->n_points, n_ending = m->n_ending;
  double at[m->d_p];
  vec top = plus((vec){0}, -INFINITY);
  *share = *reward = 0.0;
  for (int64_t i = 0; i < m->d_p; i++) at[i] = state[i] * m->end_factor[i];
  for (int64_t j = 0; j < n_ending; j += LANES) {
    vec e = scores_of(m, at, j);
    store(scores + j, e);
    EACH top.of[p] = choose(e.of[p] > top.of[p], e.of[p], top.of[p]);
  }
  double most_ending = largest(top);
  if (*beside < n && any_above(scores_of(m, at, *beside), most_ending + NEAR)) return INFINITY;
  for (int64_t j = n_ending; j < n; j += LANES) {
    vec e = scores_of(m, at, j);
    store(scores + j, e);
    EACH top.of[p] = choose(e.of[p] > top.of[p], e.of[p], top.of[p]);
  }
  double most = largest(top);
  if (n_ending < n && most > most_ending + NEAR) { /* as above, to the last bit */
    for (*beside = n_ending; largest(load(scores + *beside)) < most;) *beside += LANES;
    return most;
  }
  vec total = {0}, ended = {0}, earned = {0};
  for (int64_t j = 0; j < n; j += LANES) {
    if (!any_above(load(scores + j), most - NEAR)) continue;
    vec w = exp_of(plus(load(scores + j), -most));
    total = plus_times(total, 1.0, w);
    ended = plus_product(ended, w, load(m->ended + j));
    earned = plus_product(earned, w, load(m->end_rewards + j));
  }
  *share = sum(ended) / sum(total);
  *reward = sum(earned) / sum(total);
  return most;
}

static void feed_back(const Model *m, const Policies *a, int64_t row, const double *state,
                      double *action) {
  const double *around = a->around + row * m->d_s;
  for (int64_t j = 0; j < m->d_a; j++) {
    const double *gains = a->gains + (row * m->d_a + j) * m->d_s;
    for (int64_t i = 0; i < m->d_s; i++) action[j] += gains[i] * (state[i] - around[i]);
    action[j] = fmin(fmax(action[j], a->limits[j]), a->limits[m->d_a + j]);
  }
}

/* Steps of the paths from `first` to `last` of n_paths. Arrays are (n_steps, n_paths, ...);
 * states[0] is given. Returns 0, or 1 where there is no memory. */
int nopg_rollout(const Model *m, const Policies *a, int64_t first, int64_t last, int64_t n_paths,
                 int64_t n_steps, const double *draws, double *states, double *actions,
                 double *reached, double *following, double *rewards,
                 double *terminated, double *left, double *continuing) {
  int64_t width = m->d_z + m->q + 4 * LANES, own = widest(&a->net);
  width = own > width ? own : width;
  double *memory = malloc(((4 * TOGETHER + 2) * width + m->n_points) * sizeof(double));
  if (!memory) return 1;
  double *inputs = memory, *outs = inputs + TOGETHER * width, *z = outs + TOGETHER * width;
  double *scaled = z + TOGETHER * width, *one = scaled + TOGETHER * width;
  double *two = one + width, *scores = two + width;
  int64_t per_draw = n_paths / m->n_draws, count = TOGETHER, beside = m->n_ending;
  for (; first < last; first += count) {
    count = last - first < TOGETHER ? 1 : TOGETHER;
    int64_t draw[TOGETHER];
    for (int64_t k = 0; k < count; k++) draw[k] = (first + k) / per_draw;
    for (int64_t t = 0; t < n_steps; t++) {
      for (int64_t k = 0; k < count; k++) {
        int64_t b = first + k, row = t * n_paths + b;
        double *state = states + row * m->d_s, *action = actions + row * m->d_a;
        if (t) memcpy(state, following + (row - n_paths) * m->d_s, m->d_s * sizeof(double));
        if (a->given)
          memcpy(action, a->given + row * m->d_a, m->d_a * sizeof(double));
        else
          act(&a->net, b / (n_paths / a->net.count), state, action, one, two);
        if (a->gains) feed_back(m, a, row, state, action);
        fill(m, state, action, inputs + k * width);
      }
      if (count == 1)
        predict(m, 1, draw, width, inputs, outs, z, scaled);
      else
        predict(m, TOGETHER, draw, width, inputs, outs, z, scaled);
      for (int64_t k = 0; k < count; k++) {
        int64_t row = t * n_paths + first + k;
        double *input = inputs + k * width, *out = outs + k * width;
        double *state = states + row * m->d_s, *after = following + row * m->d_s;
        double *there = reached + row * m->d_s;
        for (int64_t i = 0; i < m->d_p; i++) there[i] = state[i] + out[i];
        if (draws && m->log_std) disturb(m, input, draws + row * m->d_s, there);
        for (int64_t i = 0; i < m->n_copied; i++) {
          double past = input[m->copied[i]];
          there[m->d_p + i] = i < m->n_changes ? there[i] - past : past;
        }
        left[row] = project(m, there, after);
        double reward = fmin(fmax(out[m->d_p], m->reward_low), m->reward_high);
        continuing[row] = rewards[row] = reward;
        terminated[row] = 0.0;
        if (m->n_points) {
          double share, final;
          terminate(m, after, scores, &beside, &share, &final);
          terminated[row] = share;
          rewards[row] = (1.0 - share) * reward + final;
        }
      }
    }
  }
  free(memory);
  return 0;
}

/* slope += sum_j g_j d predict_j / d input, of the mean (one draw, no waves). The kernel
 * of a point u has the derivative k (u - z) / scale^2, and the angle of (x, y) changes by
 * (x dy - y dx) / (x^2 + y^2). */
static void predict_backward(const Model *m, const double *input, const double *g,
                             double *slope, double *z, double *scaled) {
  int64_t d = m->d_z, q = m->q;
  part moments[d];
  for (int64_t i = 0; i < d; i++) {
    z[i] = (input[i] - m->centre[i]) * m->factor[i];
    for (int64_t j = 0; j < q; j++)
      slope[i] += g[j] * m->linear[(1 + i) * q + j] * m->factor[i];
  }
  const double *points = m->points, *offsets = m->offsets, *weights = m->weights;
  for (int64_t c = 0; c < m->n_curved; c++) {
    int64_t n = m->count[c];
    double half = 0.0, coefficient = g[m->target[c]];
    for (int64_t i = 0; i < d; i++) {
      scaled[i] = z[i] * m->inverse_scales[c * d + i];
      half += 0.5 * scaled[i] * scaled[i];
      moments[i] = splat(0.0);
    }
    vec total = {0};
    for (int64_t j = 0; coefficient != 0.0 && j < n; j += LANES) {
      vec e = plus(load(offsets + j), -half), k = {0};
      for (int64_t i = 0; i < d; i++)
        e = plus_times(e, scaled[i], load(points + j * d + i * LANES));
      k = plus_product(k, load(weights + j), exp_of(e));
      total = plus_times(total, 1.0, k);
      for (int64_t i = 0; i < d; i++) {
        vec x = load(points + j * d + i * LANES);
        EACH moments[i] += k.of[p] * x.of[p];
      }
    }
    for (int64_t i = 0; i < d; i++)
      slope[i] += coefficient * (sum_part(moments[i]) - sum(total) * scaled[i]) *
                  m->inverse_scales[c * d + i] * m->factor[i];
    points += d * n;
    offsets += n;
    weights += n;
  }
  for (int64_t k = 0; k < d - m->d; k++) {
    int64_t i = m->turned[3 * k], j = m->turned[3 * k + 1];
    double x = input[i], y = input[j], by_angle = slope[m->d + k] / fmax(x * x + y * y, 1e-18);
    slope[i] -= y * by_angle;
    slope[j] += x * by_angle;
  }
}

static void disturb_backward(const Model *m, const double *input, const double *draws,
                             const double *g, double *slope) {
  int64_t d = m->d, p = m->d_p;
  for (int64_t j = 0; j < p; j++) {
    double gust, level = log_level(m, j, input, draws, &gust);
    if (level < m->log_low[j] || level > m->log_high[j]) continue;
    for (int64_t i = 0; i < d; i++) {
      double z = (input[i] - m->noise_centre[i]) * m->noise_factor[i];
      double by_z = 2.0 * z * m->log_std[i * p + j] + m->log_std[(d + i) * p + j];
      slope[i] += g[j] * exp(level) * gust * by_z * m->noise_factor[i];
    }
  }
}

/* g of the state within bounds becomes g of the state reached. */
static void project_backward(const Model *m, const double *reached, double *after,
                             double *g) {
  clip(m, reached, after);
  for (int64_t i = 0; i < m->n_angles; i++) {
    int64_t c = m->angles[2 * i], s = m->angles[2 * i + 1];
    double radius = fmax(sqrt(after[c] * after[c] + after[s] * after[s]), 1e-9);
    double x = after[c] / radius, y = after[s] / radius;
    double along = (g[c] * y - g[s] * x) / radius;
    g[c] = along * y;
    g[s] = -along * x;
  }
  for (int64_t i = 0; i < m->d_s; i++)
    if (after[i] != reached[i]) g[i] = 0.0;
}

/* Slopes of both values of `terminate`: covariances under the weights. */
static void terminate_backward(const Model *m, const double *state, double *scores,
                               double *ending, double *final) {
  int64_t n = m->n_points, beside = n; /* it ends with some probability: no need to look */
  double share, reward, total = 0.0, most;
  most = terminate(m, state, scores, &beside, &share, &reward);
  for (int64_t i = 0; i < m->d_p; i++) ending[i] = final[i] = 0.0;
  for (int64_t j = 0; j < n; j++) {
    if (scores[j] <= most - NEAR) continue;
    double w = exp(scores[j] - most);
    total += w;
    for (int64_t i = 0; i < m->d_p; i++) {
      ending[i] += w * (m->ended[j] - share) * m->end_points[i * n + j];
      final[i] += w * (m->end_rewards[j] - reward) * m->end_points[i * n + j];
    }
  }
  for (int64_t i = 0; i < m->d_p; i++) {
    ending[i] *= m->end_factor[i] / total;
    final[i] *= m->end_factor[i] / total;
  }
}

/* dU_t / da_t along the paths from `first` to `last`: see `rollout_gradients`. Arrays
 * are those of `nopg_rollout`; by_state (n_steps, n_paths, d_a, d_s) is dpi / ds. */
int nopg_backward(const Model *m, int64_t first, int64_t last, int64_t n_paths,
                  int64_t n_steps, double gamma, double worst, const double *credit,
                  const double *by_state, const double *draws, const double *states,
                  const double *actions, const double *reached, const double *following,
                  const double *rewards, const double *terminated, const double *left,
                  const double *continuing, double *gradients) {
  int64_t d_s = m->d_s, d_a = m->d_a, width = m->d_z + m->q + m->d_s;
  double *memory = malloc((9 * width + m->n_points) * sizeof(double));
  if (!memory) return 1;
  double *input = memory, *g = input + width, *slope = g + width, *z = slope + width;
  double *scaled = z + width, *after = scaled + width, *ending = after + width;
  double *final = ending + width, *adjoint = final + width, *scores = adjoint + width;
  for (int64_t b = first; b < last; b++) {
    double value = 0.0;
    for (int64_t i = 0; i < d_s; i++) adjoint[i] = 0.0;
    for (int64_t t = n_steps - 1; t >= 0; t--) {
      int64_t row = t * n_paths + b;
      const double *there = reached + row * d_s;
      double stays = 1.0 - terminated[row], out = left[row];
      double expected = (1.0 - out) * value + out * worst;
      fill(m, states + row * d_s, actions + row * d_a, input);
      for (int64_t i = 0; i < d_s; i++) ending[i] = final[i] = 0.0;
      if (m->n_points && terminated[row] > 1e-15)
        terminate_backward(m, following + row * d_s, scores, ending, final);
      for (int64_t i = 0; i < d_s; i++) {
        double ahead = stays * (1.0 - out) * adjoint[i] - expected * ending[i];
        g[i] = gamma * ahead + final[i] - continuing[row] * ending[i];
      }
      project_backward(m, there, after, g);
      for (int64_t i = 0; out > 0.0 && i < d_s; i++) {
        double unit, leaving = beyond(m, i, there[i], &unit) * unit * (1.0 - out);
        g[i] += gamma * stays * (worst - value) * leaving;
      }
      for (int64_t i = 0; i < m->d_z; i++) slope[i] = 0.0;
      for (int64_t i = 0; i < m->n_copied; i++) {
        double past = g[m->d_p + i];
        if (i < m->n_changes) g[i] += past;
        slope[m->copied[i]] += i < m->n_changes ? -past : past;
      }
      for (int64_t i = 0; i < m->d_p; i++) slope[i] += g[i];
      if (draws && m->log_std) disturb_backward(m, input, draws + row * d_s, g, slope);
      double reward = continuing[row];
      g[m->d_p] = reward > m->reward_low && reward < m->reward_high ? stays : 0.0;
      predict_backward(m, input, g, slope, z, scaled);
      double *gradient = gradients + row * d_a;
      memcpy(gradient, slope + d_s, d_a * sizeof(double));
      for (int64_t i = 0; i < d_s; i++) {
        adjoint[i] = slope[i];
        for (int64_t j = 0; j < d_a; j++)
          adjoint[i] += gradient[j] * by_state[(row * d_a + j) * d_s + i];
        adjoint[i] *= credit[b];
      }
      value = rewards[row] + gamma * stays * expected;
    }
  }
  free(memory);
  return 0;
}
