/* Steps of policies in a learned model, path by path: what `ArrayTransitionModel.step`
 * and `ArrayPolicies.act` compute, without a call for every operation.
 *
 * Kernels and waves are evaluated eight at a time with the vector types of gcc and clang, as
 * wide as the machine's: wider ones would go to memory and back at every operation.
 * Some paths go side by side, so that what they share is read once. A path's digits do not depend
 * on which others there are, nor on how they are shared among threads: for this products are added
 * by `plus_product` alone, since compilers may round one loop otherwise than another.
 */
#include "act.h"
#include "dynamics/paths.h"
#include "parts.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#define LANES 8
#define NEAR 25.0 /* e^-25, a hundred billionth: what is so much farther off does not count */
/* Numbers in a register, and paths side by side: sums of which none waits for the one before. */
#if defined(__AVX512F__)
#define WIDE 8
#define TOGETHER 8
#elif defined(__AVX__)
#define WIDE 4
#define TOGETHER 4
#else
#define WIDE 2
#define TOGETHER 4
#endif
#define GONE 1e-12 /* probability of running at which a path has ended */
#define FEW 200    /* steps of paths that are worth a thread of their own */
#define WORTH 5000 /* products of a step that are worth one of a team */
#define BLOCKS 8   /* of targets, by which members of a team share them: the most there are */
#define IN_STEP 16 /* paths that take each step together: kernels of a target stay near by */
#define PARTS (LANES / WIDE)
#define EACH for (int p = 0; p < PARTS; p++)
#define EVERY 8  /* sums of a path or of several, likewise */
#define CHAINS 8 /* registers whose series are summed at once, likewise */
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
  const double *offsets;         /* of each target (count), -|point|^2 / 2 / ln 2 */
  const double *weights;         /* of each draw and target (count) */
  const double *frequencies;     /* of each target (n_waves / LANES, d, LANES), in half turns */
  const double *phases;          /* (n_curved, n_waves) */
  const double *wave_weights;    /* (n_draws, n_curved, n_waves) */
  /* Targets that single precision will do for: of these, columns are MANY and not LANES wide. */
  const unsigned char *is_single; /* (n_curved) */
  const float *points32, *offsets32, *weights32, *frequencies32, *phases32, *wave_weights32;
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
  /* Limits of columns: with the logit slope x - offset an episode ends there, too. */
  int64_t n_limits;
  const int64_t *limit_columns;
  const double *limit_slopes, *limit_offsets, *limit_rewards;
  /* Potential: kernels of n_pairs pairs of columns, n_each, a multiple of LANES; 0 for none. */
  int64_t n_pairs, n_each;
  const int64_t *pairs;       /* (n_pairs, 2) */
  const double *pair_factors; /* (n_pairs, 2) */
  const double *pair_points;  /* (n_pairs, 2, n_each) */
  const double *pair_offsets, *pair_weights; /* (n_pairs, n_each) */
  const double *pair_linear;                 /* (d_s) */
} Model;

typedef struct {
  Perceptrons net;
  /* (n_steps, n_paths, d_a), recorded actions instead, NaN where policies act; or null */
  const double *given;
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

/* a + b c, rounded once where the machine can. */
static inline __attribute__((always_inline)) part plus_product(part a, part b, part c) {
#if defined(__aarch64__)
  return (part)vfmaq_f64((float64x2_t)a, (float64x2_t)b, (float64x2_t)c);
#elif defined(__AVX512F__)
  return (part)_mm512_fmadd_pd((__m512d)b, (__m512d)c, (__m512d)a);
#elif defined(__FMA__) && defined(__AVX__)
  return (part)_mm256_fmadd_pd((__m256d)b, (__m256d)c, (__m256d)a);
#else
  return a + b * c;
#endif
}

static inline __attribute__((always_inline)) vec plus_times(vec a, double x, vec b) {
  EACH a.of[p] = plus_product(a.of[p], splat(x), b.of[p]);
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

/* The larger of a and b; b where it is no number. */
static inline __attribute__((always_inline)) part larger(part a, part b) {
#if defined(__aarch64__)
  return (part)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
#elif defined(__AVX512F__)
  return (part)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX__)
  return (part)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
  ipart is_first = a > b;
  return (part)((is_first & (ipart)a) | (~is_first & (ipart)b));
#endif
}

/* Where `is_so`, a; elsewhere b. */
static part choose(ipart is_so, part a, part b) {
  return (part)((is_so & (ipart)a) | (~is_so & (ipart)b));
}

/* Series of 2^r, and of cos(pi r) in r^2, with |r| <= 1/2: meeting them at Chebyshev's points,
 * right to the last bit. */
#define N_POWERS 12
#define N_COSINES 9
#define TERM(c) {c, c, c, c, c, c, c, c}
static const double powers[N_POWERS][LANES] __attribute__((aligned(64))) = {
    TERM(4.4549605981865186e-10), TERM(7.072585949269223e-09), TERM(1.0178062445845774e-07),
    TERM(1.321544258792169e-06),  TERM(1.525273382983612e-05), TERM(0.0001540353044173605),
    TERM(0.0013333558146416936),  TERM(0.009618129107606888),  TERM(0.0555041086648216),
    TERM(0.24022650695910097),    TERM(0.6931471805599453),    TERM(1.0)};
static const double cosines[N_COSINES][LANES] __attribute__((aligned(64))) = {
    TERM(4.166399462726949e-06), TERM(-0.00010458286368326585), TERM(0.001929562652479866),
    TERM(-0.02580689002587539),  TERM(0.2353306302721577),      TERM(-1.3352627688518803),
    TERM(4.058712126416736),     TERM(-4.934802200544679),      TERM(1.0)};

/* A number that a product is added to, in place: it is read again for each sum, since copies would
 * take the place of arithmetic. */
static inline __attribute__((always_inline)) part anew(const double *x, part before) {
  part found;
#if defined(__aarch64__)
  __asm__("ldr %q0, %1" : "=w"(found) : "m"(*(const part *)x), "w"(before));
#else
  memcpy(&found, x, sizeof(part));
  (void)before;
#endif
  return found;
}

#define CHAIN _Pragma("GCC unroll 8") for (int i = 0; i < CHAINS; i++)

/* 2^x, in place. */
static inline __attribute__((always_inline)) void exp2_of(part *x) {
  const part round = splat(0x1.8p52), low = splat(-1010.0);
  part r[CHAINS], y[CHAINS];
  ipart n[CHAINS];
  CHAIN {
    part at = larger(low, x[i]), shifted = at + round;
    r[i] = at - (shifted - round);
    n[i] = (ipart)shifted << 52; /* to where the exponent is */
    y[i] = anew(powers[0], r[i]);
  }
#pragma GCC unroll 12
  for (int j = 1; j < N_POWERS; j++) CHAIN y[i] = plus_product(anew(powers[j], y[i]), y[i], r[i]);
  CHAIN x[i] = (part)((ipart)y[i] + n[i]);
}

/* cos(pi x) = (-1)^n cos(pi (x - n)), in place. */
static inline __attribute__((always_inline)) void cos_of(part *x) {
  const part round = splat(0x1.8p52);
  part s[CHAINS], y[CHAINS];
  ipart odd[CHAINS];
  CHAIN {
    part shifted = x[i] + round, r = x[i] - (shifted - round);
    odd[i] = (ipart)shifted << 63;
    s[i] = r * r;
    y[i] = anew(cosines[0], r);
  }
#pragma GCC unroll 12
  for (int j = 1; j < N_COSINES; j++) CHAIN y[i] = plus_product(anew(cosines[j], y[i]), y[i], s[i]);
  CHAIN x[i] = (part)((ipart)y[i] ^ odd[i]);
}

/* e^x as 2^n 2^(r / ln 2) with |r| <= ln 2 / 2. */
static part exp_part(part x) {
  const part round = splat(0x1.8p52), low = splat(-700.0);
  x = larger(low, x);
  part shifted = x * 1.4426950408889634 + round, n = shifted - round;
  part r = (x - n * 0x1.62e42fefa3800p-1) - n * 0x1.ef35793c76730p-45;
  part y = anew(powers[0], r);
  r *= 1.4426950408889634;
  for (int i = 1; i < N_POWERS; i++) y = y * r + anew(powers[i], y);
  return (part)((ipart)y + ((ipart)shifted << 52));
}

static inline __attribute__((always_inline)) vec exp_of(vec x) {
  EACH x.of[p] = exp_part(x.of[p]);
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

/* LANES numbers less one of each path, and sums of z, (d, TOGETHER), times (d, LANES) columns x. */
static inline __attribute__((always_inline)) void along(int64_t d, const double *from,
                                                        const double *less, const double *z,
                                                        const double *x, vec *e) {
  vec found[TOGETHER]; /* in registers */
  for (int k = 0; k < TOGETHER; k++) found[k] = plus(load(from), -less[k]);
  for (int64_t i = 0; i < d; i++, z += TOGETHER, x += LANES) {
    vec there = load(x);
#if defined(__aarch64__) /* a product takes either number of a register */
    for (int k = 0; k < TOGETHER; k += 2) {
      part two;
      memcpy(&two, z + k, sizeof(part));
      __asm__("" : "+w"(two)); /* read as one */
      found[k] = plus_times(found[k], two[0], there);
      found[k + 1] = plus_times(found[k + 1], two[1], there);
    }
#else
    for (int k = 0; k < TOGETHER; k++) found[k] = plus_times(found[k], z[k], there);
#endif
  }
  for (int k = 0; k < TOGETHER; k++) e[k] = found[k];
}

/* The same for the first path alone, of `n` times LANES numbers and columns. */
static inline __attribute__((always_inline)) void alone(const int n, int64_t d, const double *from,
                                                        double less, const double *z,
                                                        const double *x, vec *e) {
  vec found[TOGETHER];
#pragma GCC unroll 8
  for (int k = 0; k < n; k++) found[k] = plus(load(from + k * LANES), -less);
  for (int64_t i = 0; i < d; i++, z += TOGETHER, x += LANES) {
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) found[k] = plus_times(found[k], *z, load(x + k * d * LANES));
  }
#pragma GCC unroll 8
  for (int k = 0; k < n; k++) e[k] = found[k];
}

static int64_t filled(int64_t count) { return (count + TOGETHER - 1) / TOGETHER * TOGETHER; }

/* Inputs of `count` paths in deviations, TOGETHER of them side by side: (.., d, TOGETHER). */
static void standardise(const Model *m, int64_t count, int64_t width, const double *inputs,
                        double *z) {
  for (int64_t k = 0; k < count; k++)
    for (int64_t i = 0; i < m->d_z; i++)
      z[(k / TOGETHER * m->d_z + i) * TOGETHER + k % TOGETHER] =
          (inputs[k * width + i] - m->centre[i]) * m->factor[i];
}

/* Where paths are in length scales of the c-th curved target, over ln 2, and half the square of
 * how far that is. */
static void scale(const Model *m, int64_t c, const double *z, double *scaled, double *half) {
  part total[TOGETHER / WIDE] = {0}, one, there;
  for (int64_t i = 0; i < m->d_z; i++)
    for (int k = 0; k < TOGETHER / WIDE; k++) {
      memcpy(&one, z + i * TOGETHER + k * WIDE, sizeof(part));
      one *= m->inverse_scales[c * m->d_z + i];
      there = 1.4426950408889634 * one;
      memcpy(scaled + i * TOGETHER + k * WIDE, &there, sizeof(part));
      total[k] = plus_product(total[k], there, one);
    }
  for (int k = 0; k < TOGETHER / WIDE; k++) total[k] *= 0.5;
  memcpy(half, total, sizeof(total));
}

/* What is summed up over a target's points: kernels or waves. */
typedef struct {
  int64_t d, count;
  const double *from, *less, *z, *x;
  int is_wave;
} Sum;

/* Of n LANES of exponents or of half turns, what is summed up. */
static inline __attribute__((always_inline)) void bent(const Sum *sum, const int n, vec *e) {
  for (int i = 0; i < n * PARTS; i += CHAINS) {
    if (sum->is_wave)
      cos_of((part *)e + i);
    else
      exp2_of((part *)e + i);
  }
}

/* The next LANES from j on of the first path by itself, and how many they are. */
static inline __attribute__((always_inline)) int by_itself(const Sum *sum, int64_t j, vec *e) {
  const double *x = sum->x + j * sum->d, *from = sum->from + j;
  int64_t n = (sum->count - j) / LANES;
  if (n >= TOGETHER) {
    alone(TOGETHER, sum->d, from, sum->less[0], sum->z, x, e);
    bent(sum, TOGETHER, e);
    return TOGETHER;
  }
  if (n >= 4) {
    alone(4, sum->d, from, sum->less[0], sum->z, x, e);
    bent(sum, 4, e);
    return 4;
  }
  if (n >= 2) {
    alone(2, sum->d, from, sum->less[0], sum->z, x, e);
    bent(sum, 2, e);
    return 2;
  }
  alone(1, sum->d, from, sum->less[0], sum->z, x, e);
  bent(sum, 1, e);
  return 1;
}

/* Their weighted sums, of all paths or of the first alone. */
static inline __attribute__((always_inline)) void add_up(const Sum *sum, int is_alone,
                                                         const double *const *weights,
                                                         vec *total) {
  vec e[TOGETHER] = {0};
  if (is_alone)
    for (int64_t j = 0, n; j < sum->count; j += n * LANES) {
      n = by_itself(sum, j, e);
      for (int64_t k = 0; k < n; k++) {
        vec w = load(weights[0] + j + k * LANES);
        EACH total[0].of[p] = plus_product(total[0].of[p], w.of[p], e[k].of[p]);
      }
    }
  else
    for (int64_t j = 0; j < sum->count; j += LANES) {
      along(sum->d, sum->from + j, sum->less, sum->z, sum->x + j * sum->d, e);
      bent(sum, TOGETHER, e);
      for (int k = 0; k < TOGETHER; k++) {
        vec w = load(weights[k] + j);
        EACH total[k].of[p] = plus_product(total[k].of[p], w.of[p], e[k].of[p]);
      }
    }
}

/* The same in single precision: twice as many numbers in a register, and shorter series. */
#define MANY 16
#if defined(__AVX512F__)
#define NARROW 16
#elif defined(__AVX__)
#define NARROW 8
#else
#define NARROW 4
#endif
#define SOME (MANY / NARROW)
#define EACH_SINGLE _Pragma("GCC unroll 4") for (int p = 0; p < SOME; p++)
typedef float spart __attribute__((vector_size(4 * NARROW)));
typedef int32_t sipart __attribute__((vector_size(4 * NARROW)));
typedef float half_part __attribute__((vector_size(4 * WIDE)));
typedef struct {
  spart of[SOME];
} svec;

/* The larger of a and b; b where it is no number. */
static inline __attribute__((always_inline)) spart larger_single(spart a, spart b) {
#if defined(__aarch64__)
  return (spart)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#elif defined(__AVX512F__)
  return (spart)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (spart)_mm256_max_ps((__m256)a, (__m256)b);
#else
  sipart is_first = a > b;
  return (spart)((is_first & (sipart)a) | (~is_first & (sipart)b));
#endif
}

static inline __attribute__((always_inline)) svec load_single(const float *x) {
  svec v;
  EACH_SINGLE memcpy(&v.of[p], x + p * NARROW, sizeof(spart));
  return v;
}

static inline __attribute__((always_inline)) spart plus_product_single(spart a, spart b, spart c) {
#if defined(__aarch64__)
  return (spart)vfmaq_f32((float32x4_t)a, (float32x4_t)b, (float32x4_t)c);
#elif defined(__AVX512F__)
  return (spart)_mm512_fmadd_ps((__m512)b, (__m512)c, (__m512)a);
#elif defined(__FMA__) && defined(__AVX__)
  return (spart)_mm256_fmadd_ps((__m256)b, (__m256)c, (__m256)a);
#else
  return a + b * c;
#endif
}

static inline __attribute__((always_inline)) float sum_part_single(spart v) {
#if defined(__aarch64__)
  return vaddvq_f32((float32x4_t)v);
#elif defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float total[NARROW];
  memcpy(total, &v, sizeof(v));
  for (int n = NARROW / 2; n; n /= 2)
    for (int i = 0; i < n; i++) total[i] += total[i + n];
  return total[0];
#endif
}

static inline __attribute__((always_inline)) double sum_single(svec v) {
  for (int n = SOME / 2; n; n /= 2)
    for (int i = 0; i < n; i++) v.of[i] += v.of[i + n];
  return sum_part_single(v.of[0]);
}

/* 2^r and cos(pi r), as above. */
#define FOUR(c) c, c, c, c
#define FLOATS(c) {FOUR(c), FOUR(c), FOUR(c), FOUR(c)}
#define N_FEW_POWERS 7
#define N_FEW_COSINES 6
static const float few_powers[N_FEW_POWERS][MANY] __attribute__((aligned(64))) = {
    FLOATS(1.5461444708e-04f), FLOATS(1.3400428178e-03f), FLOATS(9.6180566785e-03f),
    FLOATS(5.5503272267e-02f), FLOATS(2.4022650922e-01f), FLOATS(6.9314720670e-01f),
    FLOATS(1.0f)};
static const float few_cosines[N_FEW_COSINES][MANY] __attribute__((aligned(64))) = {
    FLOATS(-2.4395931998e-02f), FLOATS(2.3493706854e-01f),  FLOATS(-1.3352119494e+00f),
    FLOATS(4.0587091548e+00f),  FLOATS(-4.9348021369e+00f), FLOATS(9.9999999978e-01f)};

static inline __attribute__((always_inline)) spart anew_single(const float *x, spart before) {
  spart found;
#if defined(__aarch64__)
  __asm__("ldr %q0, %1" : "=w"(found) : "m"(*(const spart *)x), "w"(before));
#else
  memcpy(&found, x, sizeof(spart));
  (void)before;
#endif
  return found;
}

/* Registers whose series are summed at once: with more there are none left for what waits. */
#define FEW_CHAINS 4
#define SHORT_CHAIN _Pragma("GCC unroll 4") for (int i = 0; i < FEW_CHAINS; i++)

static inline __attribute__((always_inline)) void exp2_single(spart *x) {
  const spart round = 0x1.8p23f - (spart){0}, low = -126.0f - (spart){0};
  spart r[FEW_CHAINS], y[FEW_CHAINS];
  sipart n[FEW_CHAINS];
  SHORT_CHAIN {
    spart at = larger_single(low, x[i]), shifted = at + round;
    r[i] = at - (shifted - round);
    n[i] = (sipart)shifted << 23;
    y[i] = anew_single(few_powers[0], r[i]);
  }
#pragma GCC unroll 12
  for (int j = 1; j < N_FEW_POWERS; j++)
    SHORT_CHAIN y[i] = plus_product_single(anew_single(few_powers[j], y[i]), y[i], r[i]);
  SHORT_CHAIN x[i] = (spart)((sipart)y[i] + n[i]);
}

static inline __attribute__((always_inline)) void cos_single(spart *x) {
  const spart round = 0x1.8p23f - (spart){0};
  spart s[FEW_CHAINS], y[FEW_CHAINS];
  sipart odd[FEW_CHAINS];
  SHORT_CHAIN {
    spart shifted = x[i] + round, r = x[i] - (shifted - round);
    odd[i] = (sipart)shifted << 31;
    s[i] = r * r;
    y[i] = anew_single(few_cosines[0], r);
  }
#pragma GCC unroll 12
  for (int j = 1; j < N_FEW_COSINES; j++)
    SHORT_CHAIN y[i] = plus_product_single(anew_single(few_cosines[j], y[i]), y[i], s[i]);
  SHORT_CHAIN x[i] = (spart)((sipart)y[i] ^ odd[i]);
}

typedef struct {
  int64_t d, count;
  const float *from, *less, *z, *x;
  int is_wave;
} SingleSum;

/* Kernels or waves from j on, of all paths. */
static inline __attribute__((always_inline)) void bent_single(const SingleSum *sum, int64_t j,
                                                              svec *e) {
  const float *z = sum->z, *x = sum->x + j * sum->d;
  svec found[TOGETHER], from = load_single(sum->from + j);
  for (int k = 0; k < TOGETHER; k++) EACH_SINGLE found[k].of[p] = from.of[p] - sum->less[k];
  for (int64_t i = 0; i < sum->d; i++, z += TOGETHER, x += MANY) {
    svec there = load_single(x);
#if defined(__aarch64__) /* TOGETHER is 4: a product takes any number of a register */
    float32x4_t all = vld1q_f32(z);
#define LANE(k)                                                                           \
  EACH_SINGLE found[k].of[p] = (spart)vfmaq_laneq_f32((float32x4_t)found[k].of[p],        \
                                                      (float32x4_t)there.of[p], all, k);
    LANE(0) LANE(1) LANE(2) LANE(3)
#else
    for (int k = 0; k < TOGETHER; k++)
      EACH_SINGLE found[k].of[p] =
          plus_product_single(found[k].of[p], z[k] - (spart){0}, there.of[p]);
#endif
  }
  for (int k = 0; k < TOGETHER; k++) e[k] = found[k];
  for (int i = 0; i < TOGETHER * SOME; i += FEW_CHAINS) {
    if (sum->is_wave)
      cos_single((spart *)e + i);
    else
      exp2_single((spart *)e + i);
  }
}

static inline __attribute__((always_inline)) void add_up_single(const SingleSum *sum,
                                                                const float *const *weights,
                                                                svec *total) {
  svec e[TOGETHER];
  for (int64_t j = 0; j < sum->count; j += MANY) {
    bent_single(sum, j, e);
    for (int k = 0; k < TOGETHER; k++) {
      svec w = load_single(weights[k] + j);
      EACH_SINGLE total[k].of[p] = plus_product_single(total[k].of[p], w.of[p], e[k].of[p]);
    }
  }
}

/* A path that runs off would leave the range of single precision, where double does not: kernels
   are 0 long before FAR, and waves remain between -1 and 1 there. */
#define FAR 1e4
static inline __attribute__((always_inline)) void rounded(int64_t n, const double *x, double limit,
                                                          float *to) {
  const part least = splat(-limit);
  for (int64_t i = 0; i < n; i += WIDE) {
    part one;
    memcpy(&one, x + i, sizeof(part));
    one = -larger(least, -larger(least, one));
    half_part found = __builtin_convertvector(one, half_part);
    memcpy(to + i, &found, sizeof(found));
  }
}

/* Kernels and waves of the c-th curved target, added up for each path. */
static void predict_single(const Model *m, int64_t c, int64_t done, int64_t n_kernels,
                           const int64_t *draw, const double *at, const double *scaled,
                           const double *half, double *found) {
  int64_t d = m->d_z, n_waves = m->n_waves;
  float z[d * TOGETHER], less[TOGETHER], none[TOGETHER] = {0};
  const float *weights[TOGETHER];
  svec total[TOGETHER] = {0};
  rounded(d * TOGETHER, scaled, FAR, z);
  rounded(TOGETHER, half, 1e30, less);
  for (int k = 0; k < TOGETHER; k++) weights[k] = m->weights32 + draw[k] * n_kernels + done;
  SingleSum kernels = {d, m->count[c], m->offsets32 + done, less, z, m->points32 + done * d, 0};
  add_up_single(&kernels, weights, total);
  if (n_waves) {
    rounded(d * TOGETHER, at, FAR, z);
    for (int k = 0; k < TOGETHER; k++)
      weights[k] = m->wave_weights32 + (draw[k] * m->n_curved + c) * n_waves;
    SingleSum waves = {d, n_waves, m->phases32 + c * n_waves, none, z,
                       m->frequencies32 + c * n_waves * d, 1};
    add_up_single(&waves, weights, total);
  }
  for (int k = 0; k < TOGETHER; k++) found[k] = sum_single(total[k]);
}

/* Columns whose sums are in registers at once. */
#if defined(__aarch64__)
#define COLUMNS 4
#else
#define COLUMNS 2
#endif
/* Sums of weighted kernels, and of these times each column of their points, (d, TOGETHER). */
static void moments_single(const Model *m, int64_t c, int64_t done, const double *scaled,
                           const double *half, float *kept, double *whole, double *moments) {
  int64_t d = m->d_z;
  float z[d * TOGETHER], less[TOGETHER];
  svec e[TOGETHER], total[TOGETHER] = {0};
  rounded(d * TOGETHER, scaled, FAR, z);
  rounded(TOGETHER, half, 1e30, less);
  SingleSum sums = {d, m->count[c], m->offsets32 + done, less, z, m->points32 + done * d, 0};
  for (int64_t j = 0; j < sums.count; j += MANY) {
    bent_single(&sums, j, e);
    svec w = load_single(m->weights32 + done + j);
    for (int k = 0; k < TOGETHER; k++) {
      EACH_SINGLE e[k].of[p] *= w.of[p];
      EACH_SINGLE total[k].of[p] += e[k].of[p];
    }
    memcpy(kept + j * TOGETHER, e, sizeof(e));
  }
  for (int k = 0; k < TOGETHER; k++) whole[k] = sum_single(total[k]);
  for (int64_t i = 0; i < d; i += COLUMNS) {
    spart found[TOGETHER][COLUMNS] = {0};
    const float *columns[COLUMNS];
    for (int l = 0; l < COLUMNS; l++) columns[l] = sums.x + (i + l < d ? i + l : i) * MANY;
    for (int64_t j = 0; j < sums.count; j += MANY)
      for (int p = 0; p < SOME; p++) {
        spart x[COLUMNS];
#pragma GCC unroll 4
        for (int l = 0; l < COLUMNS; l++)
          memcpy(x + l, columns[l] + j * d + p * NARROW, sizeof(spart));
#pragma GCC unroll 8
        for (int k = 0; k < TOGETHER; k++) {
          spart w;
          memcpy(&w, kept + j * TOGETHER + k * MANY + p * NARROW, sizeof(spart));
#pragma GCC unroll 4
          for (int l = 0; l < COLUMNS; l++) found[k][l] = plus_product_single(found[k][l], w, x[l]);
        }
      }
    for (int k = 0; k < TOGETHER; k++)
      for (int l = 0; l < COLUMNS; l++)
        moments[(i + l) * TOGETHER + k] = sum_part_single(found[k][l]);
  }
}

/* The linear part of a mean, or of a draw, of one path. */
static void predict_linear(const Model *m, int64_t draw, const double *input, double *out) {
  int64_t d = m->d_z, q = m->q;
  const double *linear = m->linear + draw * (1 + d) * q;
  memcpy(out, linear, q * sizeof(double));
  for (int64_t i = 0; i < d; i++) {
    double at = (input[i] - m->centre[i]) * m->factor[i];
    for (int64_t j = 0; j < q; j++) out[j] += at * linear[(1 + i) * q + j];
  }
}

/* Kernels and waves of curved targets from `first_target` on, of paths at z, filled up to a
 * multiple of TOGETHER: rows of `sums`, IN_STEP apart. */
static void predict(const Model *m, int64_t first_target, int64_t last_target, int64_t count,
                    const int64_t *draw, const double *z, double *scaled, double *sums) {
  int64_t d = m->d_z, n_kernels = 0, done = 0, n_waves = m->n_waves;
  for (int64_t c = 0; c < m->n_curved; c++) {
    if (c < first_target) done += m->count[c];
    n_kernels += m->count[c];
  }
  for (int64_t c = first_target; c < last_target; done += m->count[c++])
    for (int64_t first = 0; first < count; first += TOGETHER) {
      const double *at = z + first * d, *weights[TOGETHER];
      double half[TOGETHER], none[TOGETHER] = {0}, *found = sums + c * IN_STEP + first;
      vec total[TOGETHER] = {0};
      scale(m, c, at, scaled, half);
      if (m->is_single[c]) {
        predict_single(m, c, done, n_kernels, draw + first, at, scaled, half, found);
        continue;
      }
      for (int k = 0; k < TOGETHER; k++)
        weights[k] = m->weights + draw[first + k] * n_kernels + done;
      Sum kernels = {d, m->count[c], m->offsets + done, half, scaled, m->points + done * d, 0};
      add_up(&kernels, first + 1 == count, weights, total);
      for (int k = 0; k < TOGETHER; k++)
        weights[k] = m->wave_weights + (draw[first + k] * m->n_curved + c) * n_waves;
      Sum waves = {d, n_waves, m->phases + c * n_waves, none, at, m->frequencies + c * n_waves * d,
                   1};
      if (n_waves) add_up(&waves, first + 1 == count, weights, total);
      for (int k = 0; k < TOGETHER; k++) found[k] = sum(total[k]);
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
    vec w = exp_of(plus(load(scores + j), -most)), is_end = load(m->ended + j);
    vec rewards = load(m->end_rewards + j);
    EACH total.of[p] += w.of[p];
    EACH ended.of[p] = plus_product(ended.of[p], w.of[p], is_end.of[p]);
    EACH earned.of[p] = plus_product(earned.of[p], w.of[p], rewards.of[p]);
  }
  *share = sum(ended) / sum(total);
  *reward = sum(earned) / sum(total);
  return most;
}

/* Probability that the l-th limit is crossed. */
static double crossed(const Model *m, int64_t l, const double *state) {
  double logit = m->limit_slopes[l] * state[m->limit_columns[l]] - m->limit_offsets[l];
  return 0.5 + 0.5 * tanh(0.5 * logit);
}

/* The potential of a state, and its slope unless that is null. */
static double potential(const Model *m, const double *state, double *slope) {
  double found = 0.0;
  for (int64_t i = 0; i < m->d_s; i++) {
    found += m->pair_linear[i] * state[i];
    if (slope) slope[i] = m->pair_linear[i];
  }
  for (int64_t c = 0; c < m->n_pairs; c++) {
    const int64_t *at = m->pairs + 2 * c, n = m->n_each;
    const double *factor = m->pair_factors + 2 * c, *points = m->pair_points + 2 * c * n;
    double x = state[at[0]] * factor[0], y = state[at[1]] * factor[1];
    vec total = {0}, by_x = {0}, by_y = {0};
    for (int64_t j = 0; j < n; j += LANES) {
      vec u = load(points + j), v = load(points + n + j), w = load(m->pair_weights + c * n + j);
      vec e = plus(load(m->pair_offsets + c * n + j), -0.5 * (x * x + y * y));
      e = exp_of(plus_times(plus_times(e, x, u), y, v));
      EACH e.of[p] *= w.of[p];
      EACH total.of[p] += e.of[p];
      if (!slope) continue;
      EACH by_x.of[p] = plus_product(by_x.of[p], e.of[p], u.of[p]);
      EACH by_y.of[p] = plus_product(by_y.of[p], e.of[p], v.of[p]);
    }
    double whole = sum(total);
    found += whole;
    if (!slope) continue;
    slope[at[0]] += (sum(by_x) - whole * x) * factor[0];
    slope[at[1]] += (sum(by_y) - whole * y) * factor[1];
  }
  return found;
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

/* What parts of one piece of work are of. */
typedef struct {
  const Model *model;
  const Policies *policies;
  const void *given;   /* what else they take */
  Work work;
  int64_t n_each;      /* threads that share the targets of a part */
  atomic_int is_short; /* of memory */
} Job;

/* A part of it, and its threads, which go through it together: each does what there is to do for
 * some paths, and then for some targets of all of them. */
typedef struct {
  Job *job;
  int64_t first, last;
  Crew crew;
  atomic_int is_short;
  double *common; /* memory */
} Team;

/* Memory of a member's own, and of all; none where one of them has none. */
static double *room(Team *team, int64_t member, int64_t common, int64_t own) {
  double *memory = calloc(own, sizeof(double));
  if (!member) team->common = calloc(common, sizeof(double));
  if (!memory || (!member && !team->common)) atomic_store(&team->is_short, 1);
  meet(&team->crew);
  if (!atomic_load(&team->is_short)) return memory;
  atomic_store(&team->job->is_short, 1);
  free(memory);
  return NULL;
}

/* What a target costs in a step, in products in single precision. */
static int64_t cost_of(const Model *m, int64_t c) {
  return (m->count[c] + m->n_waves) * m->d_z * (m->is_single[c] ? 1 : 2);
}

static int64_t whole_cost(const Model *m) {
  int64_t cost = 0;
  for (int64_t c = 0; c < m->n_curved; c++) cost += cost_of(m, c);
  return cost;
}

/* The first target of a block: all cost about as much. */
static int64_t begin_of(const Model *m, int64_t block) {
  int64_t whole = whole_cost(m), done = 0, c = 0;
  for (; c < m->n_curved && done * BLOCKS < whole * block; c++) done += cost_of(m, c);
  return block == BLOCKS ? m->n_curved : c;
}

static void with_team(const void *given, int64_t first, int64_t last) {
  Job *job = (Job *)given;
  Team team = {.job = job, .first = first, .last = last};
  in_step(job->work, &team, &team.crew, job->n_each);
  free(team.common);
}

/* Not 0 where there is no memory. */
static int share_out(Work work, const Model *m, const Policies *a, const void *given,
                     int64_t count, int64_t n_steps, int64_t n_threads) {
  Job job = {m, a, given, work, 1, 0};
  int64_t worth = whole_cost(m) / WORTH, n_parts = count * n_steps * (1 + worth) / FEW;
  int64_t most = worth < BLOCKS ? worth : BLOCKS;
  if (n_steps > 1 && worth > 1) /* one path takes about as long as some together */
    n_parts = filled(count) / TOGETHER;
  n_parts = n_parts < count ? n_parts : count;
  n_parts = n_parts < n_threads ? n_parts : n_threads;
  n_parts = n_parts < 1 ? 1 : n_parts;
  if (n_steps > 1 && worth > 1) job.n_each = n_threads / n_parts < most ? n_threads / n_parts : most;
  in_parts(with_team, &job, count, n_parts);
  return job.is_short;
}

/* What a member of a team does. */
static void roll_out(const void *given, int64_t member, int64_t next) {
  Team *team = (Team *)given;
  const Rollout *r = team->job->given;
  const Model *m = team->job->model;
  const Policies *a = team->job->policies;
  int64_t n_paths = r->n_paths, n_steps = r->n_steps, size = crew_size(&team->crew);
  int64_t first_target = begin_of(m, BLOCKS * member / size);
  int64_t last_target = begin_of(m, BLOCKS * next / size);
  const double *draws = r->draws;
  double *running = r->running, *states = r->states, *actions = r->actions;
  double *reached = r->reached, *following = r->following, *rewards = r->rewards;
  double *terminated = r->terminated, *left = r->left, *continuing = r->continuing;
  int64_t width = m->d_z + m->q + 4 * LANES, own = widest(&a->net);
  width = own > width ? own : width;
  double *memory = room(team, member, (2 * width + m->n_curved + 1) * IN_STEP,
                        (2 * IN_STEP + 2) * width + m->n_points);
  if (!memory) return;
  double *inputs = team->common, *outs = inputs + IN_STEP * width, *sums = outs + IN_STEP * width;
  double *are_gone = sums + IN_STEP * m->n_curved, *z = memory, *scaled = z + IN_STEP * width;
  double *one = scaled + IN_STEP * width, *two = one + width, *scores = two + width;
  int64_t per_draw = n_paths / m->n_draws, beside = m->n_ending;
  for (int64_t first = team->first; first < team->last; first += IN_STEP) {
    int64_t count = team->last - first < IN_STEP ? team->last - first : IN_STEP;
    int64_t draw[IN_STEP], path[IN_STEP];
    double before[IN_STEP];
    for (int64_t k = 0; k < count; k++) path[k] = first + k;
    for (int64_t k = member; k < count; k += size) {
      if (m->n_pairs) before[k] = potential(m, states + (first + k) * m->d_s, NULL);
      are_gone[k] = 0.0;
    }
    for (int64_t t = 0; t < n_steps; t++) {
      int64_t n_left = 0;
      for (int64_t k = member; k < count; k += size) {
        int64_t b = path[k], row = t * n_paths + b;
        double *state = states + row * m->d_s;
        if (are_gone[k]) continue;
        if (t) memcpy(state, following + (row - n_paths) * m->d_s, m->d_s * sizeof(double));
        if (!running || !(running[b] < GONE)) continue; /* what is no number goes on, too */
        are_gone[k] = 1.0;
        for (; row < n_steps * n_paths; row += n_paths) {
          memcpy(states + row * m->d_s, state, m->d_s * sizeof(double));
          memcpy(reached + row * m->d_s, state, m->d_s * sizeof(double));
          memcpy(following + row * m->d_s, state, m->d_s * sizeof(double));
          memset(actions + row * m->d_a, 0, m->d_a * sizeof(double));
          rewards[row] = left[row] = continuing[row] = 0.0;
          terminated[row] = 1.0;
        }
      }
      for (int64_t k = 0; size == 1 && k < count; k++) { /* alone it can leave gaps out */
        if (are_gone[k]) continue;
        path[n_left] = path[k];
        before[n_left] = before[k];
        are_gone[n_left++] = 0.0;
      }
      if (size == 1) count = n_left;
      for (int64_t k = 0; k < filled(count); k++) draw[k] = path[k < count ? k : 0] / per_draw;
      for (int64_t k = member; k < count; k += size) {
        if (are_gone[k]) continue;
        int64_t b = path[k], row = t * n_paths + b;
        double *state = states + row * m->d_s, *action = actions + row * m->d_a;
        const double *given = a->given ? a->given + row * m->d_a : NULL;
        if (given && !(a->net.widths && isnan(*given)))
          memcpy(action, given, m->d_a * sizeof(double));
        else
          act(&a->net, b / (n_paths / a->net.count), state, action, one, two);
        if (a->gains) feed_back(m, a, row, state, action);
        fill(m, state, action, inputs + k * width);
        predict_linear(m, draw[k], inputs + k * width, outs + k * width);
      }
      meet(&team->crew);
      for (int64_t k = 0; size > 1 && k < count; k++) n_left += !are_gone[k];
      if (!n_left) break;
      standardise(m, filled(count), width, inputs, z);
      predict(m, first_target, last_target, count, draw, z, scaled, sums);
      meet(&team->crew);
      for (int64_t k = member; k < count; k += size) {
        if (are_gone[k]) continue;
        int64_t row = t * n_paths + path[k];
        double *input = inputs + k * width, *out = outs + k * width;
        double *state = states + row * m->d_s, *after = following + row * m->d_s;
        double *there = reached + row * m->d_s;
        for (int64_t c = 0; c < m->n_curved; c++) out[m->target[c]] += sums[c * IN_STEP + k];
        for (int64_t i = 0; i < m->d_p; i++) there[i] = state[i] + out[i];
        if (draws && m->log_std) disturb(m, input, draws + row * m->d_s, there);
        for (int64_t i = 0; i < m->n_copied; i++) {
          double past = input[m->copied[i]];
          there[m->d_p + i] = i < m->n_changes ? there[i] - past : past;
        }
        left[row] = project(m, there, after);
        double reward = out[m->d_p];
        if (m->n_pairs) {
          double now = potential(m, after, NULL);
          reward += now - before[k];
          before[k] = now;
        }
        reward = fmin(fmax(reward, m->reward_low), m->reward_high);
        continuing[row] = rewards[row] = reward;
        terminated[row] = 0.0;
        if (m->n_points) {
          double share, final;
          terminate(m, after, scores, &beside, &share, &final);
          for (int64_t l = 0; l < m->n_limits; l++) {
            double over = crossed(m, l, after);
            share += over * (1.0 - share);
            final += over * (m->limit_rewards[l] - final);
          }
          terminated[row] = share;
          rewards[row] = (1.0 - share) * reward + final;
        }
        if (running) running[path[k]] *= (1.0 - terminated[row]) * (1.0 - left[row]);
      }
    }
    meet(&team->crew);
  }
  free(memory);
}

int nopg_rollout(const Rollout *r, int64_t n_threads, const Model *m, const Policies *a) {
  return share_out(roll_out, m, a, r, r->n_paths, r->n_steps, n_threads);
}

/* Sums of weighted kernels, and of these times each column of their points, (d, TOGETHER). */
static inline __attribute__((always_inline)) void moments_of(const Sum *sums, const int n_paths,
                                                             const double *weights, double *kept,
                                                             double *whole, double *moments) {
  const int n_columns = EVERY / n_paths;
  int64_t d = sums->d;
  vec e[TOGETHER] = {0}, total[TOGETHER] = {0};
  for (int64_t j = 0, n = TOGETHER; j < sums->count; j += n_paths == 1 ? n * LANES : LANES) {
    if (n_paths == 1) {
      n = by_itself(sums, j, e);
    } else {
      along(d, sums->from + j, sums->less, sums->z, sums->x + j * d, e);
      bent(sums, TOGETHER, e);
    }
    for (int k = 0; k < n; k++) {
      int64_t at = n_paths == 1 ? j + k * LANES : j;
      vec w = load(weights + at), *own = total + (n_paths == 1 ? 0 : k);
      EACH e[k].of[p] *= w.of[p];
      EACH own->of[p] += e[k].of[p];
      store(kept + (j * n_paths + k * LANES), e[k]);
    }
  }
  for (int k = 0; k < n_paths; k++) whole[k] = sum(total[k]);
  for (int64_t i = 0; i < d; i += n_columns) {
    part found[EVERY] = {0};
    const double *columns[EVERY];
    for (int l = 0; l < n_columns; l++)
      columns[l] = sums->x + (i + l < d ? i + l : i) * LANES;
    for (int64_t j = 0; j < sums->count; j += LANES)
#pragma GCC unroll 8
      for (int k = 0; k < n_paths; k++) {
        vec w = load(kept + j * n_paths + k * LANES);
#pragma GCC unroll 8
        for (int l = 0; l < n_columns; l++) {
          vec x = load(columns[l] + j * d);
          EACH found[k * n_columns + l] = plus_product(found[k * n_columns + l], w.of[p], x.of[p]);
        }
      }
    for (int k = 0; k < n_paths; k++)
      for (int l = 0; l < n_columns; l++)
        moments[(i + l) * TOGETHER + k] = sum_part(found[k * n_columns + l]);
  }
}

/* Where `count` paths from z on are in length scales of the c-th curved target, over ln 2, and the
 * moments of its kernels there. */
static void moments_at(const Model *m, int64_t c, int64_t done, int64_t count, const double *z,
                       double *scaled, double *kept, double *whole, double *moments) {
  double half[TOGETHER];
  scale(m, c, z, scaled, half);
  Sum kernels = {m->d_z, m->count[c], m->offsets + done, half, scaled, m->points + done * m->d_z,
                 0};
  if (m->is_single[c])
    moments_single(m, c, done, scaled, half, (float *)kept, whole, moments);
  else if (count == 1)
    moments_of(&kernels, 1, m->weights + done, kept, whole, moments);
  else
    moments_of(&kernels, TOGETHER, m->weights + done, kept, whole, moments);
}

/* What the kernels of some targets add to sum_j g_j d predict_j / dz, of the mean (one draw, no
 * waves), at z: (d, TOGETHER) for each TOGETHER paths. The kernel of a point u has the derivative
 * k (u - z) / scale^2. */
static void predict_backward(const Model *m, int64_t first_target, int64_t last_target,
                             int64_t count, int64_t width, const double *gs, const double *z,
                             double *scaled, double *kept, double *added) {
  int64_t d = m->d_z, done = 0;
  double moments[(d + EVERY) * TOGETHER];
  memset(added, 0, filled(count) * d * sizeof(double));
  for (int64_t c = 0; c < first_target; c++) done += m->count[c];
  for (int64_t c = first_target; c < last_target; done += m->count[c++])
    for (int64_t first = 0; first < count; first += TOGETHER) {
      const double *at = z + first * d, *by_scale = m->inverse_scales + c * d;
      double whole[TOGETHER];
      moments_at(m, c, done, count - first, at, scaled, kept, whole, moments);
      double by_target[TOGETHER] = {0};
      for (int k = 0; k < TOGETHER && first + k < count; k++)
        by_target[k] = gs[(first + k) * width + m->target[c]];
      for (int64_t i = 0; i < d; i++)
        for (int k = 0; k < TOGETHER; k++) {
          double there = at[i * TOGETHER + k] * by_scale[i];
          double moment = moments[i * TOGETHER + k] - whole[k] * there;
          added[first * d + i * TOGETHER + k] += by_target[k] * moment * by_scale[i];
        }
    }
}

/* slope += sum_j g_j d predict_j / d input of the k-th path, with what was `added` by each block of
 * targets. The angle of (x, y) changes by (x dy - y dx) / (x^2 + y^2). */
static void finish_backward(const Model *m, int64_t k, const double *input, const double *g,
                            const double *added, double *slope) {
  int64_t d = m->d_z, q = m->q;
  added += k / TOGETHER * d * TOGETHER + k % TOGETHER;
  for (int64_t i = 0; i < d; i++) {
    double by_kernels = 0.0;
    for (int64_t j = 0; j < q; j++) slope[i] += g[j] * m->linear[(1 + i) * q + j] * m->factor[i];
    for (int64_t block = 0; block < BLOCKS; block++)
      by_kernels += added[(block * IN_STEP * d) + i * TOGETHER];
    slope[i] += by_kernels * m->factor[i];
  }
  for (int64_t l = 0; l < d - m->d; l++) {
    const int64_t i = m->turned[3 * l], j = m->turned[3 * l + 1];
    double x = input[i], y = input[j], by_angle = slope[m->d + l] / fmax(x * x + y * y, 1e-18);
    slope[i] -= y * by_angle;
    slope[j] += x * by_angle;
  }
}

/* d predict / d (state, action, angles) of the mean at `count` inputs, IN_STEP at most: (count, q,
 * d_z). Memory is for IN_STEP of them, twice, and for kernels of TOGETHER. */
static void slopes_at(const Model *m, int64_t count, const double *inputs, double *z,
                      double *scaled, double *kept, double *found) {
  int64_t d = m->d_z, q = m->q, done = 0;
  double moments[(d + EVERY) * TOGETHER];
  for (int64_t k = 0; k < count; k++)
    for (int64_t j = 0; j < q; j++)
      for (int64_t i = 0; i < d; i++)
        found[(k * q + j) * d + i] = m->linear[(1 + i) * q + j] * m->factor[i];
  standardise(m, filled(count), d, inputs, z);
  for (int64_t c = 0; c < m->n_curved; done += m->count[c++])
    for (int64_t some = 0; some < count; some += TOGETHER) {
      const double *at = z + some * d, *by_scale = m->inverse_scales + c * d;
      double whole[TOGETHER];
      moments_at(m, c, done, count - some, at, scaled, kept, whole, moments);
      for (int64_t k = 0; k < TOGETHER && some + k < count; k++) {
        double *of_target = found + ((some + k) * q + m->target[c]) * d;
        for (int64_t i = 0; i < d; i++) {
          double there = at[i * TOGETHER + k] * by_scale[i];
          double moment = moments[i * TOGETHER + k] - whole[k] * there;
          of_target[i] += moment * by_scale[i] * m->factor[i];
        }
      }
    }
}

/* Kernels of the target that has most of them. */
static int64_t most_kernels(const Model *m) {
  int64_t most = 0;
  for (int64_t c = 0; c < m->n_curved; c++) most = m->count[c] > most ? m->count[c] : most;
  return most;
}

typedef struct {
  int64_t n;
  const double *states, *actions;
  double *slopes;
} Slopes;

/* Those of the rows of a team, of one. */
static void slope(const void *given, int64_t member, int64_t next) {
  Team *team = (Team *)given;
  const Slopes *all = team->job->given;
  const Model *m = team->job->model;
  int64_t d = m->d_z, some = IN_STEP * d;
  double *memory = room(team, member, next, 3 * some + most_kernels(m) * TOGETHER);
  if (!memory) return;
  for (int64_t first = team->first; first < team->last; first += IN_STEP) {
    int64_t count = team->last - first < IN_STEP ? team->last - first : IN_STEP;
    for (int64_t k = 0; k < count; k++)
      fill(m, all->states + (first + k) * m->d_s, all->actions + (first + k) * m->d_a,
           memory + k * d);
    slopes_at(m, count, memory, memory + some, memory + 2 * some, memory + 3 * some,
              all->slopes + first * m->q * d);
  }
  free(memory);
}

int nopg_slopes(const Slopes *all, int64_t n_threads, const Model *m) {
  return share_out(slope, m, NULL, all, all->n, 1, n_threads);
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
  for (int64_t l = 0; l < m->n_limits; l++) {
    double over = crossed(m, l, state), slope = m->limit_slopes[l] * over * (1.0 - over);
    for (int64_t i = 0; i < m->d_p; i++) {
      ending[i] *= 1.0 - over;
      final[i] *= 1.0 - over;
    }
    ending[m->limit_columns[l]] += slope * (1.0 - share);
    final[m->limit_columns[l]] += slope * (m->limit_rewards[l] - reward);
    share += over * (1.0 - share);
    reward += over * (m->limit_rewards[l] - reward);
  }
}

/* What a member of a team does. */
static void go_back(const void *given, int64_t member, int64_t next) {
  Team *team = (Team *)given;
  const Backward *all = team->job->given;
  const Model *m = team->job->model;
  int64_t n_paths = all->n_paths, n_steps = all->n_steps, size = crew_size(&team->crew);
  int64_t first_block = BLOCKS * member / size, last_block = BLOCKS * next / size;
  double gamma = all->gamma, worst = all->worst, *gradients = all->gradients;
  const double *credit = all->credit, *by_state = all->by_state, *draws = all->draws;
  const double *states = all->states, *actions = all->actions, *reached = all->reached;
  const double *following = all->following, *rewards = all->rewards;
  const double *terminated = all->terminated, *left = all->left, *continuing = all->continuing;
  int64_t d_s = m->d_s, d_a = m->d_a, d = m->d_z, width = d + m->q + m->d_s, most = most_kernels(m);
  int64_t common = IN_STEP * (3 * width + BLOCKS * d);
  int64_t own = (5 * IN_STEP + 3) * width + m->n_points + most * TOGETHER;
  double *memory = room(team, member, common, own);
  if (!memory) return;
  double *inputs = team->common, *gs = inputs + IN_STEP * width, *slopes = gs + IN_STEP * width;
  double *added = slopes + IN_STEP * width, *z = memory, *scaled = z + IN_STEP * width;
  double *adjoints = scaled + IN_STEP * width, *after = adjoints + IN_STEP * width;
  double *ending = after + width, *final = ending + width, *scores = final + width;
  double *later = scores + m->n_points, *here = later + IN_STEP * width;
  double *kept = here + IN_STEP * width;
  for (int64_t first = team->first; first < team->last; first += IN_STEP) {
    int64_t every = team->last - first, ends[IN_STEP], path[IN_STEP];
    every = every < IN_STEP ? every : IN_STEP;
    double values[IN_STEP] = {0}, expected[IN_STEP];
    memset(adjoints, 0, IN_STEP * width * sizeof(double));
    for (int64_t k = 0; k < every; k++) { /* what comes when it is gone moves nothing */
      double running = 1.0;
      for (ends[k] = 0; ends[k] < n_steps && running >= GONE; ends[k]++) {
        int64_t row = ends[k] * n_paths + first + k;
        running *= (1.0 - terminated[row]) * (1.0 - left[row]);
      }
    }
    for (int64_t t = n_steps - 1; t >= 0; t--) {
      int64_t count = 0;
      for (int64_t k = 0; k < every; k++) {
        if (t < ends[k] || size > 1) path[count++] = k; /* alone it can leave gaps out */
        if (t >= ends[k] && k % size == member)
          memset(gradients + (t * n_paths + first + k) * d_a, 0, d_a * sizeof(double));
      }
      for (int64_t l = 0; l < count; l++) {
        int64_t k = path[l], row = t * n_paths + first + k;
        if (t >= ends[k] || k % size != member) continue;
        const double *there = reached + row * d_s, *adjoint = adjoints + k * width;
        double *input = inputs + l * width, *g = gs + l * width, *slope = slopes + l * width;
        double stays = 1.0 - terminated[row], out = left[row], value = values[k];
        expected[k] = (1.0 - out) * value + out * worst;
        fill(m, states + row * d_s, actions + row * d_a, input);
        for (int64_t i = 0; i < d_s; i++) ending[i] = final[i] = 0.0;
        if (m->n_points && terminated[row] > 1e-15)
          terminate_backward(m, following + row * d_s, scores, ending, final);
        for (int64_t i = 0; i < d_s; i++) {
          double ahead = stays * (1.0 - out) * adjoint[i] - expected[k] * ending[i];
          g[i] = gamma * ahead + final[i] - continuing[row] * ending[i];
        }
        double reward = continuing[row];
        double counts = reward > m->reward_low && reward < m->reward_high ? stays : 0.0;
        if (m->n_pairs) { /* what follows now came before in the step after it */
          if (t == ends[k] - 1) potential(m, following + row * d_s, later + k * width);
          potential(m, states + row * d_s, here + k * width);
          for (int64_t i = 0; i < d_s; i++) g[i] += counts * later[k * width + i];
        }
        project_backward(m, there, after, g);
        for (int64_t i = 0; out > 0.0 && i < d_s; i++) {
          double unit, leaving = beyond(m, i, there[i], &unit) * unit * (1.0 - out);
          g[i] += gamma * stays * (worst - value) * leaving;
        }
        for (int64_t i = 0; i < m->d_z; i++) slope[i] = 0.0;
        for (int64_t i = 0; m->n_pairs && i < d_s; i++) {
          slope[i] = -counts * here[k * width + i];
          later[k * width + i] = here[k * width + i];
        }
        for (int64_t i = 0; i < m->n_copied; i++) {
          double past = g[m->d_p + i];
          if (i < m->n_changes) g[i] += past;
          slope[m->copied[i]] += i < m->n_changes ? -past : past;
        }
        for (int64_t i = 0; i < m->d_p; i++) slope[i] += g[i];
        if (draws && m->log_std) disturb_backward(m, input, draws + row * d_s, g, slope);
        g[m->d_p] = counts;
      }
      meet(&team->crew);
      if (count) standardise(m, filled(count), width, inputs, z);
      for (int64_t block = first_block; block < last_block; block++)
        predict_backward(m, begin_of(m, block), begin_of(m, block + 1), count, width, gs, z, scaled,
                         kept, added + block * IN_STEP * d);
      meet(&team->crew);
      for (int64_t l = 0; l < count; l++) {
        int64_t k = path[l], row = t * n_paths + first + k;
        if (t >= ends[k] || k % size != member) continue;
        double *gradient = gradients + row * d_a, *slope = slopes + l * width;
        double *adjoint = adjoints + k * width;
        finish_backward(m, l, inputs + l * width, gs + l * width, added, slope);
        memcpy(gradient, slope + d_s, d_a * sizeof(double));
        for (int64_t i = 0; i < d_s; i++) {
          adjoint[i] = slope[i];
          for (int64_t j = 0; j < d_a; j++)
            adjoint[i] += gradient[j] * by_state[(row * d_a + j) * d_s + i];
          adjoint[i] *= credit[first + k];
        }
        values[k] = rewards[row] + gamma * (1.0 - terminated[row]) * expected[k];
      }
    }
  }
  free(memory);
}

int nopg_backward(const Backward *all, int64_t n_threads, const Model *m) {
  return share_out(go_back, m, NULL, all, all->n_paths, all->n_steps, n_threads);
}

/* Steps of a log or of paths, and their derivatives by (state, action) in some of the rows: see
 * `Derivatives` of `curvature.py`. */
typedef struct {
  int64_t n;
  const int64_t *rows;
  const double *states, *actions, *reached, *following, *rewards, *terminated, *left, *continuing;
  double *moving, *earning, *bending, *ending, *leaving;
} Derivatives;

#define ROUND (CHAINS * WIDE) /* numbers whose powers are found at once */

/* Second derivatives of the last target by inputs, (d_z, d_z), at z, one of TOGETHER. Of
 * w exp(-|u|^2 / 2) with u = (x - c) / l they are w exp(-|u|^2 / 2) (u u' - 1) over l l'. */
static void bend_at(const Model *m, const double *z, double *kept, double *bent) {
  int64_t d = m->d_z, c = 0, done = 0;
  for (; c < m->n_curved && m->target[c] != m->q - 1; c++) done += m->count[c];
  memset(bent, 0, d * d * sizeof(double));
  if (c == m->n_curved) return;
  int64_t count = m->count[c], lanes = m->is_single[c] ? MANY : LANES;
  const double *by_scale = m->inverse_scales + c * d, *points = m->points + done * d;
  double x[d], first[d], half = 0.0, whole = 0.0;
  for (int64_t i = 0; i < d; i++) {
    x[i] = z[i * TOGETHER] * by_scale[i];
    half += 0.5 * 1.4426950408889634 * x[i] * x[i];
  }
  for (int64_t j = 0; j < count; j += LANES) {
    const double *at = points + j / lanes * lanes * d + j % lanes;
    vec e = plus(load(m->offsets + done + j), -half);
    for (int64_t i = 0; i < d; i++) e = plus_times(e, 1.4426950408889634 * x[i], load(at + i * lanes));
    store(kept + j, e);
  }
  for (int64_t j = count; j % ROUND; j++) kept[j] = 0.0;
  for (int64_t j = 0; j < count; j += ROUND) {
    part e[CHAINS]; /* aligned */
    memcpy(e, kept + j, sizeof(e));
    exp2_of(e);
    memcpy(kept + j, e, sizeof(e));
  }
  for (int64_t j = 0; j < count; j++) whole += kept[j] *= m->weights[done + j];
  for (int64_t a = 0; a < d; a++)
    for (int64_t b = 0; b <= a; b += EVERY) {
      part found[EVERY] = {0}, alone = {0};
      const double *others[EVERY];
      for (int l = 0; l < EVERY; l++) others[l] = points + (b + l <= a ? b + l : a) * lanes;
      for (int64_t j = 0; j < count; j += LANES) {
        int64_t at = j / lanes * lanes * d + j % lanes;
        vec w = load(kept + j), here = load(points + at + a * lanes);
        EACH here.of[p] *= w.of[p];
        EACH alone += here.of[p];
#pragma GCC unroll 8
        for (int l = 0; l < EVERY; l++) {
          vec other = load(others[l] + at);
          EACH found[l] = plus_product(found[l], here.of[p], other.of[p]);
        }
      }
      first[a] = sum_part(alone);
      for (int l = 0; l < EVERY && b + l <= a; l++) bent[a * d + b + l] = sum_part(found[l]);
    }
  for (int64_t a = 0; a < d; a++)
    for (int64_t b = 0; b <= a; b++) {
      double moment = bent[a * d + b] - first[a] * x[b] - x[a] * first[b];
      moment += whole * (x[a] * x[b] - (a == b));
      bent[a * d + b] = moment * by_scale[a] * m->factor[a] * by_scale[b] * m->factor[b];
      bent[b * d + a] = bent[a * d + b];
    }
}

/* The same by (state, action), with angles t of these: T' F T + sum_k f_k t_k'', where T = d(x, t) /
 * dx, F and f are second and first derivatives by (x, t), the latter `by_angle`. */
static void bend_angles(const Model *m, const double *input, const double *by_angle, double *bent) {
  int64_t n = m->d_z;
  for (int64_t l = 0; l < n - m->d; l++) {
    const int64_t i = m->turned[3 * l], j = m->turned[3 * l + 1], at = m->d + l;
    double x = input[i], y = input[j], square = fmax(x * x + y * y, 1e-18);
    double by_x = -y / square, by_y = x / square;
    for (int64_t a = 0; a < n; a++) {
      bent[a * n + i] += by_x * bent[a * n + at];
      bent[a * n + j] += by_y * bent[a * n + at];
    }
    for (int64_t a = 0; a < n; a++) {
      bent[i * n + a] += by_x * bent[at * n + a];
      bent[j * n + a] += by_y * bent[at * n + a];
    }
    double twice = 2.0 * x * y / (square * square), across = (y * y - x * x) / (square * square);
    bent[i * n + i] += by_angle[l] * twice;
    bent[j * n + j] -= by_angle[l] * twice;
    bent[i * n + j] += by_angle[l] * across;
    bent[j * n + i] += by_angle[l] * across;
  }
}

/* What a row's derivatives are made of: where it leads, slopes by inputs, (q, d_z), and by angles. */
static void derive_one(const Model *m, const Derivatives *all, int64_t row, const double *slopes,
                       double *memory, double *scores) {
  int64_t d_s = m->d_s, d = m->d;
  const double *there = all->reached + row * d_s, *last = slopes + (m->q - 1) * m->d_z;
  double *moving = all->moving + row * d_s * d, *earning = all->earning + row * d;
  double *ending = all->ending + row * d, *leaving = all->leaving + row * d;
  double *after = memory, *ends = after + d_s, *final = ends + d_s, *level = final + d_s;
  double out = all->left[row], stays = 1.0 - all->terminated[row], reward = all->continuing[row];
  double counts = reward > m->reward_low && reward < m->reward_high ? stays : 0.0;
  for (int64_t j = 0; j < m->d_p; j++) {
    memcpy(moving + j * d, slopes + j * m->d_z, d * sizeof(double));
    moving[j * d + j] += 1.0;
  }
  for (int64_t i = 0; i < m->n_copied; i++) {
    double *past = moving + (m->d_p + i) * d;
    memset(past, 0, d * sizeof(double));
    if (i < m->n_changes) memcpy(past, moving + i * d, d * sizeof(double));
    past[m->copied[i]] += i < m->n_changes ? -1.0 : 1.0;
  }
  for (int64_t a = 0; a < d; a++) {
    earning[a] = counts * last[a];
    ending[a] = leaving[a] = 0.0;
  }
  for (int64_t i = 0; out > 0.0 && i < d_s; i++) {
    double unit, by = beyond(m, i, there[i], &unit) * unit * (1.0 - out);
    for (int64_t a = 0; a < d; a++) leaving[a] += by * moving[i * d + a];
  }
  clip(m, there, after);
  for (int64_t i = 0; i < d_s; i++) {
    if (after[i] != there[i]) memset(moving + i * d, 0, d * sizeof(double));
    ends[i] = final[i] = 0.0;
  }
  for (int64_t i = 0; i < m->n_angles; i++) {
    int64_t c = m->angles[2 * i], s = m->angles[2 * i + 1];
    double radius = fmax(sqrt(after[c] * after[c] + after[s] * after[s]), 1e-9);
    double x = after[c] / radius, y = after[s] / radius;
    for (int64_t a = 0; a < d; a++) {
      double along = (moving[c * d + a] * y - moving[s * d + a] * x) / radius;
      moving[c * d + a] = along * y;
      moving[s * d + a] = -along * x;
    }
  }
  if (m->n_points && all->terminated[row] > 1e-15)
    terminate_backward(m, all->following + row * d_s, scores, ends, final);
  for (int64_t i = 0; i < d_s; i++) final[i] -= reward * ends[i];
  if (m->n_pairs) {
    potential(m, all->following + row * d_s, level);
    for (int64_t i = 0; i < d_s; i++) final[i] += counts * level[i];
    potential(m, all->states + row * d_s, level);
    for (int64_t i = 0; i < d_s; i++) earning[i] -= counts * level[i];
  }
  for (int64_t i = 0; i < d_s; i++)
    for (int64_t a = 0; a < d; a++) {
      earning[a] += final[i] * moving[i * d + a];
      ending[a] += ends[i] * moving[i * d + a];
    }
}

/* Those of the rows of a team, of one. */
static void derive(const void *given, int64_t member, int64_t next) {
  Team *team = (Team *)given;
  const Derivatives *all = team->job->given;
  const Model *m = team->job->model;
  int64_t d_z = m->d_z, q = m->q, d = m->d, some = IN_STEP * d_z;
  int64_t kernels = most_kernels(m) * TOGETHER + ROUND;
  double *memory = room(team, member, next, (3 + q) * some + kernels + d_z * (d_z + 4) + m->n_points);
  if (!memory) return;
  double *z = memory + some, *scaled = z + some, *slopes = scaled + some, *kept = slopes + q * some;
  double *bent = kept + kernels, *rest = bent + d_z * d_z, *scores = rest + 4 * d_z;
  for (int64_t first = team->first; first < team->last; first += IN_STEP) {
    int64_t count = team->last - first < IN_STEP ? team->last - first : IN_STEP;
    const int64_t *rows = all->rows + first;
    for (int64_t k = 0; k < count; k++)
      fill(m, all->states + rows[k] * m->d_s, all->actions + rows[k] * m->d_a, memory + k * d_z);
    slopes_at(m, count, memory, z, scaled, kept, slopes);
    for (int64_t k = 0; k < count; k++) {
      double *own = slopes + k * q * d_z, *last = own + (q - 1) * d_z, *input = memory + k * d_z;
      double *bending = all->bending + rows[k] * d * d, reward = all->continuing[rows[k]];
      double stays = 1.0 - all->terminated[rows[k]];
      double counts = reward > m->reward_low && reward < m->reward_high ? stays : 0.0;
      memset(bending, 0, d * d * sizeof(double));
      if (counts > 0.0) {
        bend_at(m, z + (k - k % TOGETHER) * d_z + k % TOGETHER, kept, bent);
        bend_angles(m, input, last + d, bent);
        for (int64_t a = 0; a < d; a++)
          for (int64_t b = 0; b < d; b++) bending[a * d + b] = counts * bent[a * d_z + b];
      }
      for (int64_t l = 0; l < d_z - d; l++) {
        const int64_t i = m->turned[3 * l], j = m->turned[3 * l + 1];
        double x = input[i], y = input[j], by_angle = last[d + l] / fmax(x * x + y * y, 1e-18);
        last[i] -= y * by_angle;
        last[j] += x * by_angle;
      }
      derive_one(m, all, rows[k], own, rest, scores);
    }
  }
  free(memory);
}

int nopg_derivatives(const Derivatives *all, int64_t n_threads, const Model *m) {
  return share_out(derive, m, NULL, all, all->n, 1, n_threads);
}
