/* Perceptrons forwards and backwards, and Adam's step: what `build.py` and `adam.py` do
 * with a dozen calls each. States go through a tile at a time; sums over states are those
 * of tiles, of chunks of tiles, and of these in order, whoever makes them.
 */
#include "shared.h"

#define TILE (4 * LANES)

typedef struct {
  int64_t n_states, n_layers, n_chunks, n_parameters, room_each;
  const int64_t *widths;              /* (n_layers + 1) */
  const real *const *layers;          /* weight, (width out, width in), and bias of each */
  const real *states, *mean, *spread; /* (n_states, widths[0]); the others null, or (widths[0]) */
  real *raw;                          /* (n_states, last width), written where it is not null */
  const real *slopes;                 /* by raw; null where the way back is not asked for */
  real *found;                        /* (n_chunks, n_parameters) */
  real *room;                         /* (n_chunks, room_each), 2 TILE or more for each unit */
} Perceptron;

/* The sum of `count` tiles x, each times its w, `step` apart, beside `first`. */
static inline void combine(const Lanes *x, const real *w, int64_t count, int64_t step, real first,
                           Lanes *to) {
  Lanes a = first - (Lanes){0}, b = a, c = a, d = a;
  for (int64_t i = 0; i < count; i++, x += 4) {
    real scale = w[i * step];
    a += scale * x[0];
    b += scale * x[1];
    c += scale * x[2];
    d += scale * x[3];
  }
  to[0] = a, to[1] = b, to[2] = c, to[3] = d;
}

/* What units say, (width, TILE) layer after layer: `at` has the states. */
static void forwards(const Perceptron *p, real *at) {
  for (int64_t l = 0; l < p->n_layers; l++) {
    int64_t in = p->widths[l], out = p->widths[l + 1], is_last = l + 1 == p->n_layers;
    real *to = at + in * TILE;
    for (int64_t o = 0; o < out; o++)
      combine((const Lanes *)at, p->layers[2 * l] + o * in, in, 1, p->layers[2 * l + 1][o],
              (Lanes *)(to + o * TILE));
    for (int64_t t = 0; t < out * TILE && !is_last; t++) to[t] = to[t] > 0 ? to[t] : 0;
    at = to;
  }
}

/* Add this tile's slopes by the parameters; `at` and `slope` are those of the last layer. */
static void backwards(const Perceptron *p, const real *at, real *slope, real *found) {
  found += p->n_parameters;
  for (int64_t l = p->n_layers - 1; l >= 0; l--) {
    int64_t in = p->widths[l], out = p->widths[l + 1];
    real *before = slope - in * TILE;
    at -= in * TILE;
    found -= out * in + out;
    for (int64_t o = 0; o < out; o++) {
      const Lanes *s = (const Lanes *)(slope + o * TILE), *x = (const Lanes *)at;
      found[out * in + o] += sum_of((s[0] + s[1]) + (s[2] + s[3]));
      for (int64_t i = 0; i < in; i++, x += 4)
        found[o * in + i] += sum_of(s[0] * x[0] + s[1] * x[1] + (s[2] * x[2] + s[3] * x[3]));
    }
    for (int64_t i = 0; l && i < in; i++)
      combine((const Lanes *)slope, p->layers[2 * l] + i, out, in, 0, (Lanes *)(before + i * TILE));
    for (int64_t t = 0; l && t < in * TILE; t++) before[t] = at[t] > 0 ? before[t] : 0;
    slope = before;
  }
}

static void chunks(const void *job, int64_t first, int64_t last) {
  const Perceptron *p = job;
  int64_t in = p->widths[0], out = p->widths[p->n_layers], n_tiles = (p->n_states + TILE - 1) / TILE;
  for (int64_t chunk = first; chunk < last; chunk++) {
    real *at = p->room + chunk * p->room_each, *slopes = at + p->room_each / 2;
    int64_t end = 0; /* where the last layer is */
    for (int64_t l = 0; l < p->n_layers; l++) end += p->widths[l] * TILE;
    real *found = p->found + chunk * p->n_parameters;
    if (p->slopes) memset(found, 0, p->n_parameters * sizeof(real));
    int64_t tile = n_tiles * chunk / p->n_chunks;
    for (; tile < n_tiles * (chunk + 1) / p->n_chunks; tile++) {
      int64_t begin = tile * TILE, count = p->n_states - begin < TILE ? p->n_states - begin : TILE;
      memset(at, 0, in * TILE * sizeof(real));
      for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < in; i++) {
          real x = p->states[(begin + t) * in + i];
          at[i * TILE + t] = p->mean ? (x - p->mean[i]) / p->spread[i] : x;
        }
      forwards(p, at);
      if (p->slopes) memset(slopes + end, 0, out * TILE * sizeof(real));
      for (int64_t t = 0; t < count; t++)
        for (int64_t o = 0; o < out; o++)
          if (p->slopes)
            slopes[end + o * TILE + t] = p->slopes[(begin + t) * out + o];
          else
            p->raw[(begin + t) * out + o] = at[end + o * TILE + t];
      if (p->slopes) backwards(p, at + end, slopes + end, found);
    }
  }
}

void nopg_perceptron(const Perceptron *p, int64_t n_threads) {
  in_parts(chunks, p, p->n_chunks, n_threads);
  for (int64_t chunk = 1; p->slopes && chunk < p->n_chunks; chunk++)
    for (int64_t i = 0; i < p->n_parameters; i++)
      p->found[i] += p->found[chunk * p->n_parameters + i];
}
