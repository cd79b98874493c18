/* Mean paths along the lines of the samples next to them, path by path: what the loop of
 * `PathGradient` does, without a call for every operation. The sample next to a path, in
 * state and action, is the first of those that are equally near.
 */
#include "act.h"

#define CHUNK 64
#define TURN 6.283185307179586

typedef struct {
  /* Samples, coordinates, of them straight, columns of states and of inputs; what labels say
   * apart, or 1; columns of a step; walls, gusts of a sample, paths, steps. */
  int64_t n, d, n_straight, d_s, d_in, n_labels, q, n_walls, n_gusts, n_paths, n_steps;
  const int64_t *columns; /* of the state: straight ones, then cosine and sine of angles */
  const double *points;   /* states, and actions that are no labels, in bandwidths, (k, n) */
  const double *units;    /* bandwidths, (k) with k = d_s + d_in - d */
  const double *inputs;   /* places and actions of samples, (n, d_in) */
  const double *values;   /* (n, n_labels, q) */
  const double *slopes;   /* (n, n_labels, d_in, q) */
  const double *range;    /* of steps, (2, q) */
  const double *ends;     /* of places that paths are followed to, (2, d) */
  const double *walls;    /* column, sign, and what is the same there, (n_walls, 2 + d) */
  const double *gusts;    /* (n, n_gusts, d) */
  const int64_t *chosen;  /* which of them blows, (n_steps, n_paths) */
  const double *begin;    /* (n_paths, d) */
  /* To be written, (n_steps, n_paths, ...): as the loop keeps them. */
  double *x, *later, *outputs, *line, *is_met;
  int64_t *nearest;
} Follow;

static int64_t nearest(const Follow *f, const double *state, const double *action) {
  double best = INFINITY, far[CHUNK];
  int64_t found = 0;
  for (int64_t start = 0; start < f->n; start += CHUNK) {
    int64_t count = f->n - start < CHUNK ? f->n - start : CHUNK;
    memset(far, 0, sizeof far);
    for (int64_t i = 0; i < f->d_s + f->d_in - f->d; i++) {
      const double *there = f->points + i * f->n + start;
      double here = (i < f->d_s ? state[i] : action[i - f->d_s]) / f->units[i];
      for (int64_t j = 0; j < count; j++) far[j] += (there[j] - here) * (there[j] - here);
    }
    for (int64_t j = 0; j < count; j++)
      if (far[j] < best) best = far[j], found = start + j;
  }
  return found;
}

static void to_state(const Follow *f, const double *x, double *state) {
  const int64_t *column = f->columns;
  for (int64_t i = 0; i < f->n_straight; i++) state[*column++] = x[i];
  for (int64_t i = f->n_straight; i < f->d; i++) {
    state[*column++] = cos(x[i]);
    state[*column++] = sin(x[i]);
  }
}

/* One step of a path, kept in row `row`; whether it is over with it. */
static int step(const Follow *f, const Perceptrons *a, int64_t row, double *one, double *two) {
  int64_t d = f->d, q = f->q, n_out = a->n_out;
  const double *x = f->x + row * d;
  double state[f->d_s], offset[f->d_in], place[d];
  double *outputs = f->outputs + row * n_out, *later = f->later + row * q;
  to_state(f, x, state);
  act(a, 0, state, outputs, one, two);
  int64_t sample = f->nearest[row] = nearest(f, state, outputs);
  for (int64_t i = 0; i < f->d_in; i++) {
    offset[i] = (i < d ? x[i] : outputs[i - d]) - f->inputs[sample * f->d_in + i];
    if (i >= f->n_straight && i < d) {
      double turned = offset[i] + 0.5 * TURN;
      offset[i] = turned - TURN * floor(turned / TURN) - 0.5 * TURN;
    }
  }
  const double *gust = f->gusts + (sample * f->n_gusts + f->chosen[row]) * d;
  for (int64_t k = 0; k < q; k++) later[k] = k < d ? x[k] + gust[k] : 0.0;
  for (int64_t l = 0; l < f->n_labels; l++) {
    int64_t which = sample * f->n_labels + l;
    double *line = f->line + (row * f->n_labels + l) * q;
    double share = f->n_labels > 1 ? outputs[l] : 1.0;
    for (int64_t k = 0; k < q; k++) line[k] = f->values[which * q + k];
    for (int64_t i = 0; i < f->d_in; i++)
      for (int64_t k = 0; k < q; k++)
        line[k] += offset[i] * f->slopes[(which * f->d_in + i) * q + k];
    for (int64_t k = 0; k < q; k++)
      later[k] += share * fmin(fmax(line[k], f->range[k]), f->range[q + k]);
  }
  memcpy(place, later, sizeof place);
  for (int64_t w = 0; w < f->n_walls; w++) {
    const double *wall = f->walls + w * (2 + d), *same = wall + 2;
    int64_t column = (int64_t)wall[0];
    if (!(wall[1] * (later[column] - same[column]) > 0.0)) continue;
    for (int64_t i = 0; i < d; i++)
      if (!isnan(same[i])) later[i] = same[i];
  }
  int is_over = 0;
  for (int64_t i = 0; i < d; i++) {
    f->is_met[row * d + i] = place[i] != later[i];
    is_over |= later[i] < f->ends[i] || later[i] > f->ends[d + i];
  }
  return is_over;
}

/* Steps until all paths are over; -1 where there is no memory. */
int64_t nopg_follow(const Follow *f, const Perceptrons *a) {
  int64_t width = widest(a), n_done = 0;
  double *memory = malloc(2 * width * sizeof(double));
  if (!memory) return -1;
  for (int64_t b = 0; b < f->n_paths; b++) {
    int64_t t = 0, is_over = 0;
    for (; t < f->n_steps && !is_over; t++) {
      int64_t row = t * f->n_paths + b, d = f->d;
      const double *from = t ? f->later + (row - f->n_paths) * f->q : f->begin + b * d;
      memcpy(f->x + row * d, from, d * sizeof(double));
      is_over = step(f, a, row, memory, memory + width);
    }
    n_done = t > n_done ? t : n_done;
    for (; t < f->n_steps; t++) { /* it stays where it was last */
      int64_t to = t * f->n_paths + b, from = to - f->n_paths, L = f->n_labels * f->q;
      memcpy(f->x + to * f->d, f->x + from * f->d, f->d * sizeof(double));
      memcpy(f->later + to * f->q, f->later + from * f->q, f->q * sizeof(double));
      memcpy(f->outputs + to * a->n_out, f->outputs + from * a->n_out, a->n_out * sizeof(double));
      memcpy(f->line + to * L, f->line + from * L, L * sizeof(double));
      memcpy(f->is_met + to * f->d, f->is_met + from * f->d, f->d * sizeof(double));
      f->nearest[to] = f->nearest[from];
    }
  }
  free(memory);
  return n_done;
}
