/* What a perceptron policy says at many states, and the way back: what `families.py` does,
 * in one call each. States go through all layers some dozens at a time, so that what units
 * say stays in the cache; on the way back it is made again, which is faster than to keep it.
 * Sums over states are those of fixed chunks, in order, whatever the number of threads.
 */
#include "shared.h"

#define WIDE (int64_t)(512 / sizeof(real)) /* states that go side by side */
#define MOST_CHUNKS 64 /* of states, whose slopes are summed by one thread */
#define LARGEST 40.0 /* beyond it tanh and sigmoid are 0 or 1 to rounding */

typedef struct {
  int64_t m, n_layers, width; /* states, layers, columns of each output */
  int64_t is_shares, n_parameters; /* probabilities instead of actions */
  const int64_t *widths;      /* (n_layers + 1) */
  const real *states;         /* (m, widths[0]) */
  const real *mean, *std;     /* what states are standardised by, (widths[0]), or null */
  const real *low, *high;     /* the box that actions are squashed into, (width), or null */
  const real *most;           /* largest standard deviations, (width) */
  const real *slopes, *spread_slopes; /* by the outputs, (m, width), for the way back */
  real *outputs, *spreads;    /* (m, width) */
  real *by_states;            /* slopes of outputs, (m, width, widths[0]), instead of both */
  /* Weight (out, in) and bias of each layer in turn; then, for the way back, where slopes
   * by them go. */
  real *parameters[];
} Pass;

/* The same shared among threads. */
typedef struct {
  const Pass *pass;
  int64_t n_threads, n_chunks, total, widest; /* widths: all together, and the largest */
  real *room;      /* (n_threads, total + 2 widest, WIDE) */
  double *partial; /* (n_chunks, n_parameters) */
} Shared;

/* A few states abreast, for the loops below: registers of the processor. */
#ifdef __AVX__
#define BYTES 32
#else
#define BYTES 16
#endif
typedef real Row __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));
#define EACH (int64_t)(BYTES / sizeof(real))
#define ABREAST (128 / BYTES)

/* ReLU; what is no number stays so, and is seen. */
static inline Row bent(Row x) {
  typedef whole Mask __attribute__((vector_size(BYTES)));
  return (Row)((Mask)x & ~(x < 0));
}

/* y_j = b_j + sum_i w_ji x_i for WIDE states, or 0 instead of less where it is bent; w_ji is
 * at j * across + i * along. */
static void combine(int64_t n_out, int64_t n_in, const real *w, int64_t across, int64_t along,
                    const real *b, const real *x, int64_t is_bent, real *y) {
  for (int64_t at = 0; at < WIDE; at += ABREAST * EACH)
    for (int64_t j = 0; j < n_out; j += 2) { /* two units share what is loaded */
      int64_t k = j + 1 < n_out ? j + 1 : j;
      const real *one = w + j * across, *two = w + k * across;
      real first = b ? b[j] : 0, second = b ? b[k] : 0;
      Row left[ABREAST], right[ABREAST];
      for (int l = 0; l < ABREAST; l++) {
        left[l] = first - (Row){0};
        right[l] = second - (Row){0};
      }
      for (int64_t i = 0; i < n_in; i++) {
        const Row *from = (const Row *)(x + i * WIDE + at);
        for (int l = 0; l < ABREAST; l++) {
          left[l] += from[l] * one[i * along];
          right[l] += from[l] * two[i * along];
        }
      }
      for (int l = 0; is_bent && l < ABREAST; l++) {
        left[l] = bent(left[l]);
        right[l] = bent(right[l]);
      }
      for (int l = 0; l < ABREAST; l++) {
        ((Row *)(y + j * WIDE + at))[l] = left[l];
        ((Row *)(y + k * WIDE + at))[l] = right[l];
      }
    }
}

/* Inputs of all layers one after the other, then what the last one says, of up to WIDE
 * states from number `first` on. */
static real *forwards(const Pass *p, int64_t first, real *x) {
  int64_t d = p->widths[0], count = p->m - first < WIDE ? p->m - first : WIDE;
  const real *states = p->states + first * d;
  for (int64_t i = 0; i < d; i++) {
    for (int64_t s = 0; s < count; s++) x[i * WIDE + s] = states[s * d + i];
    for (int64_t s = count; s < WIDE; s++) x[i * WIDE + s] = 0;
    for (int64_t s = 0; p->mean && s < count; s++)
      x[i * WIDE + s] = (x[i * WIDE + s] - p->mean[i]) / p->std[i];
  }
  for (int64_t l = 0; l < p->n_layers; l++) {
    int64_t n_in = p->widths[l], n_out = p->widths[l + 1];
    const real *w = p->parameters[2 * l], *b = p->parameters[2 * l + 1];
    real *y = x + n_in * WIDE;
    combine(n_out, n_in, w, n_in, 1, b, x, l + 1 < p->n_layers, y);
    x = y;
  }
  return x;
}

static inline real sigmoid(real x) {
  x = x < -LARGEST ? -LARGEST : x;
  return 1 / (1 + exp_of(-x));
}

static inline real tanh_of(real x) {
  x = x > LARGEST / 2 ? LARGEST / 2 : x;
  return 1 - 2 / (exp_of(2 * x) + 1);
}

/* Probabilities from logits, in place. */
static void shares_of(real *raw, int64_t width) {
  for (int64_t s = 0; s < WIDE; s++) {
    real top = raw[s], total = 0;
    for (int64_t k = 1; k < width; k++) top = raw[k * WIDE + s] > top ? raw[k * WIDE + s] : top;
    for (int64_t k = 0; k < width; k++) total += raw[k * WIDE + s] = exp_of(raw[k * WIDE + s] - top);
    for (int64_t k = 0; k < width; k++) raw[k * WIDE + s] /= total;
  }
}

/* Slopes by what the last layer says, (width or 2 width, WIDE), from those by the outputs, or of
 * output number `only`. */
static void by_raw(const Pass *p, int64_t first, const real *raw, int64_t only, real *slope) {
  int64_t count = p->m - first < WIDE ? p->m - first : WIDE, width = p->width;
  for (int64_t k = 0; k < p->widths[p->n_layers]; k++) {
    int64_t is_spread = k >= width, a = is_spread ? k - width : k;
    const real *given = is_spread ? p->spread_slopes : p->slopes, *x = raw + k * WIDE;
    real *to = slope + k * WIDE;
    for (int64_t s = 0; s < WIDE; s++)
      to[s] = s >= count ? 0 : p->by_states ? k == only : given[(first + s) * width + a];
    if (is_spread) {
      for (int64_t s = 0; s < WIDE; s++) to[s] *= p->most[a] * sigmoid(x[s]) * (1 - sigmoid(x[s]));
    } else if (p->low) {
      real half = (real)0.5 * (p->high[a] - p->low[a]);
      for (int64_t s = 0; s < WIDE; s++) to[s] *= half * (1 - tanh_of(x[s]) * tanh_of(x[s]));
    }
  }
  for (int64_t s = 0; p->is_shares && s < WIDE; s++) {
    real mean = 0;
    for (int64_t k = 0; k < width; k++) mean += raw[k * WIDE + s] * slope[k * WIDE + s];
    for (int64_t k = 0; k < width; k++)
      slope[k * WIDE + s] = raw[k * WIDE + s] * (slope[k * WIDE + s] - mean);
  }
}

/* What the policy says at up to WIDE states. */
static void say(const Pass *p, int64_t first, real *raw) {
  int64_t count = p->m - first < WIDE ? p->m - first : WIDE, width = p->width;
  for (int64_t k = 0; k < p->widths[p->n_layers]; k++) {
    int64_t is_spread = k >= width, a = is_spread ? k - width : k;
    real *x = raw + k * WIDE, *to = (is_spread ? p->spreads : p->outputs) + first * width + a;
    if (is_spread) {
      for (int64_t s = 0; s < WIDE; s++) x[s] = p->most[a] * sigmoid(x[s]);
    } else if (p->low) {
      real half = (real)0.5 * (p->high[a] - p->low[a]), middle = (real)0.5 * (p->high[a] + p->low[a]);
      for (int64_t s = 0; s < WIDE; s++) x[s] = middle + half * tanh_of(x[s]);
    }
    for (int64_t s = 0; s < count; s++) to[s * width] = x[s];
  }
}

/* Sums over WIDE states of the products of two slopes and two inputs, each as `dot` sums it: what
 * is loaded is shared. */
static inline void dots(const real *const by[2], const real *const x[2], real *found) {
  Row sums[4][8 / EACH] = {0};
  for (int64_t s = 0; s < WIDE; s += 8)
    for (int l = 0; l < 8 / EACH; l++) {
      int64_t at = s + l * EACH;
      Row one = *(const Row *)(by[0] + at), two = *(const Row *)(by[1] + at);
      Row left = *(const Row *)(x[0] + at), right = *(const Row *)(x[1] + at);
      sums[0][l] += one * left;
      sums[1][l] += one * right;
      sums[2][l] += two * left;
      sums[3][l] += two * right;
    }
  for (int k = 0; k < 4; k++) found[k] = sum8((const real *)sums[k]);
}

/* Add slopes by the parameters of up to WIDE states, or return those by what the first layer is
 * given. `x` are the inputs of all layers, and `slope` those by what the last one says; `other` is
 * as wide. */
static real *backwards(const Pass *p, const real *x, real *slope, real *other, double *total) {
  total += p->n_parameters;
  for (int64_t l = p->n_layers - 1; l >= 0; l--) {
    int64_t n_in = p->widths[l], n_out = p->widths[l + 1];
    total -= n_out * (n_in + 1);
    x -= n_in * WIDE;
    for (int64_t j = 0; !p->by_states && j < n_out; j += 2)
      for (int64_t i = 0; i < n_in; i += 2) {
        int64_t is_last = j + 1 == n_out, is_end = i + 1 == n_in;
        const real *by = slope + j * WIDE, *from = x + i * WIDE;
        const real *const bys[] = {by, by + !is_last * WIDE}, *const xs[] = {from, from + !is_end * WIDE};
        real found[4];
        dots(bys, xs, found);
        double *to = total + j * n_in + i;
        to[0] += found[0];
        if (!is_end) to[1] += found[1];
        if (!is_last) to[n_in] += found[2];
        if (!is_last && !is_end) to[n_in + 1] += found[3];
      }
    for (int64_t j = 0; !p->by_states && j < n_out; j++) {
      const real *by = slope + j * WIDE;
      real some[8] = {0};
      for (int64_t s = 0; s < WIDE; s += 8)
        for (int l = 0; l < 8; l++) some[l] += by[s + l];
      total[n_out * n_in + j] += sum8(some);
    }
    if (!l && !p->by_states) break;
    combine(n_in, n_out, p->parameters[2 * l], 1, n_in, NULL, slope, 0, other);
    for (int64_t s = 0; l && s < n_in * WIDE; s++) other[s] = x[s] > 0 ? other[s] : 0;
    real *swap = slope;
    slope = other;
    other = swap;
  }
  return slope;
}

/* Slopes of outputs by up to WIDE states. */
static void slopes_by_states(const Pass *p, int64_t first, const real *raw, real *one, real *two,
                             double *total) {
  int64_t count = p->m - first < WIDE ? p->m - first : WIDE, d = p->widths[0];
  for (int64_t k = 0; k < p->width; k++) {
    by_raw(p, first, raw, k, one);
    const real *found = backwards(p, raw, one, two, total);
    for (int64_t s = 0; s < count; s++)
      for (int64_t i = 0; i < d; i++)
        p->by_states[((first + s) * p->width + k) * d + i] =
            p->mean ? found[i * WIDE + s] / p->std[i] : found[i * WIDE + s];
  }
}

/* What thread number `first` does: its chunks, there or back. */
static void run(const void *job, int64_t first, int64_t last) {
  const Shared *all = job;
  const Pass *p = all->pass;
  int64_t n_blocks = (p->m + WIDE - 1) / WIDE, n = all->n_chunks;
  real *x = all->room + first * (all->total + 2 * all->widest) * WIDE;
  real *slope = x + all->total * WIDE, *other = slope + all->widest * WIDE;
  int64_t end = n * last / all->n_threads;
  for (int64_t c = n * first / all->n_threads; c < end; c++)
    for (int64_t b = n_blocks * c / n; b < n_blocks * (c + 1) / n; b++) {
      real *raw = forwards(p, b * WIDE, x);
      if (p->is_shares) shares_of(raw, p->width);
      double *total = all->partial + c * p->n_parameters;
      if (p->by_states) {
        slopes_by_states(p, b * WIDE, raw, slope, other, total);
      } else if (p->slopes) {
        by_raw(p, b * WIDE, raw, -1, slope);
        backwards(p, raw, slope, other, total);
      } else {
        say(p, b * WIDE, raw);
      }
    }
}

/* Outputs; or, where there are slopes by them, slopes by the parameters; or those of outputs by
 * states. Not 0 where there is no memory. */
int64_t nopg_perceptron(const Pass *p, int64_t n_threads) {
  int64_t n_chunks = (p->m + WIDE - 1) / WIDE;
  n_chunks = n_chunks < MOST_CHUNKS ? n_chunks : MOST_CHUNKS;
  n_threads = n_threads < n_chunks ? n_threads : n_chunks;
  Shared all = {p, n_threads < 1 ? 1 : n_threads, n_chunks, 0, 0, NULL, NULL};
  for (int64_t l = 0; l <= p->n_layers; l++) {
    all.total += p->widths[l];
    all.widest = p->widths[l] > all.widest ? p->widths[l] : all.widest;
  }
  all.room = malloc(all.n_threads * (all.total + 2 * all.widest) * WIDE * sizeof(real));
  all.partial = calloc(n_chunks * p->n_parameters + 1, sizeof(double));
  int64_t is_short = !all.room || !all.partial;
  if (!is_short) in_parts(run, &all, all.n_threads, all.n_threads);
  const double *partial = all.partial;
  for (int64_t l = 0; !is_short && p->slopes && l < 2 * p->n_layers; l++) {
    int64_t count = p->widths[l / 2 + 1] * (l % 2 ? 1 : p->widths[l / 2]);
    for (int64_t i = 0; i < count; i++, partial++) {
      double total = 0;
      for (int64_t c = 0; c < n_chunks; c++) total += partial[c * p->n_parameters];
      p->parameters[2 * p->n_layers + l][i] = total;
    }
  }
  free(all.room);
  free(all.partial);
  return is_short;
}
