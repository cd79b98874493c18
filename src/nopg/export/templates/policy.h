/* @TITLE@
@ABOUT@
 *
 *     @p@_state state;
 *     @p@_action action[@P@_N_ACTIONS] = {0};          what to do before the first one
 *     @p@_reset(&state);                               before every episode
 *     int found = @p@_act(&state, observation, action);
 *
 * `found` is @P@_OK; @P@_FAR if no sample of the data is near, `action` is then the
 * fallback where one was named; or @P@_REFUSED for numbers that are not finite, `action`
 * is then the fallback, or what it was. Whoever takes another action tells it with
 * @p@_took(&state, action). C99, no allocation, nothing but math.h; the table of samples
 * is left out with -D@P@_NO_GUARD.
 */
#ifndef NOPG_@P@_H
#define NOPG_@P@_H

#include <math.h>

enum { @P@_OK = 0, @P@_FAR = 1, @P@_REFUSED = 2 };
typedef @REAL@ @p@_real;
typedef @ACTION@ @p@_action;
@NUMBERS@

typedef struct {
  int steps; /* since the episode began */
#if @P@_N_PAST > 0
  @p@_real past[@P@_N_PAST];
#endif
} @p@_state;

static inline void @p@_reset(@p@_state *state) {
  static const @p@_state empty;
  *state = empty;
}

/* Linear layers, ReLU between them, on standardised columns. */
static inline const @p@_real *@p@_network(const @p@_real *seen, @p@_real *a, @p@_real *b) {
  const @p@_real *w = @p@_weights;
  int i, j, layer;
  for (i = 0; i < @P@_WIDTH; i++) a[i] = (seen[i] - @p@_mean[i]) / @p@_std[i];
  for (layer = 0; layer < @P@_N_LAYERS; layer++) {
    const int n_in = @p@_widths[layer], n_out = @p@_widths[layer + 1];
    @p@_real *restrict from = layer % 2 ? b : a, *restrict to = layer % 2 ? a : b;
    for (j = 0; j < n_out; j++) to[j] = w[j];
    w += n_out;
    for (i = 0; i < n_in; i++, w += n_out) {
      const @p@_real value = from[i];
      if (layer > 0 && value <= 0) continue;
      for (j = 0; j < n_out; j++) to[j] += value * w[j];
    }
  }
  return @P@_N_LAYERS % 2 ? b : a;
}

/* The policy's action in a state, limits included; 0 if it is not finite. */
static inline int @p@_choose(const @p@_real *seen, @p@_action *action) {
  @p@_real a[@P@_WIDEST], b[@P@_WIDEST];
  const @p@_real *found = @p@_network(seen, a, b);
  int j;
#if @P@_IS_DISCRETE
  int best = 0;
  for (j = 0; j < @P@_N_TAKEN; j++) {
    if (!isfinite(found[j])) return 0;
    if (found[j] > found[best]) best = j;
  }
  action[0] = best;
#else
  @p@_action chosen[@P@_N_ACTIONS];
  for (j = 0; j < @P@_N_ACTIONS; j++) {
    @p@_real x = found[j];
#if @P@_IS_SQUASHED
    x = @p@_centre[j] + @p@_half_width[j] * @TANH@(x);
#endif
    x = x < @p@_low[j] ? @p@_low[j] : x > @p@_high[j] ? @p@_high[j] : x;
    if (!isfinite(x)) return 0;
    chosen[j] = x;
  }
  for (j = 0; j < @P@_N_ACTIONS; j++) action[j] = chosen[j];
#endif
  return 1;
}

/* An action as columns: itself, or a 1 at its label. */
static inline @p@_real @p@_taken(const @p@_action *action, int j) {
#if @P@_IS_DISCRETE
  return (@p@_real)(action[0] == j);
#else
  return action[j];
#endif
}

#if @P@_N_BLOCKS > 0 && !defined @P@_NO_GUARD
/* Whether a sample lies within the threshold of a state and an action. */
static inline int @p@_is_near(const @p@_real *seen, const @p@_action *action) {
  const @p@_real *point = @p@_points;
  @p@_real x[@P@_WIDTH + @P@_N_TAKEN];
  int block, i, j;
  for (i = 0; i < @P@_WIDTH; i++) x[i] = seen[i] * @p@_scale[i];
  for (j = 0; j < @P@_N_TAKEN; j++)
    x[@P@_WIDTH + j] = @p@_taken(action, j) * @p@_scale[@P@_WIDTH + j];
  for (block = 0; block < @P@_N_BLOCKS; block++) {
    @p@_real distance[@P@_BLOCK] = {0};
    for (i = 0; i < @P@_WIDTH + @P@_N_TAKEN; i++, point += @P@_BLOCK)
      for (j = 0; j < @P@_BLOCK; j++)
        distance[j] += (x[i] - point[j]) * (x[i] - point[j]);
    for (j = 0; j < @P@_BLOCK; j++)
      if (distance[j] <= @p@_threshold[0] * @p@_threshold[0]) return 1;
  }
  return 0;
}
#endif

/* Put another action in the place of the one that was last given. */
static inline void @p@_took(@p@_state *state, const @p@_action *action) {
#if @P@_N_PAST > 0
  int i;
  for (i = 0; i < @P@_N_PAST; i++)
    if (@p@_copied[i] >= @P@_WIDTH)
      state->past[i] = @p@_taken(action, @p@_copied[i] - @P@_WIDTH);
#else
  (void)state, (void)action;
#endif
}

static inline int @p@_act(@p@_state *state, const @p@_real *observation,
                          @p@_action *action) {
  @p@_real seen[@P@_WIDTH];
  int i, found = @P@_OK, finite = 1;
  for (i = 0; i < @P@_N_OBSERVATIONS; i++) {
    finite = finite && isfinite(observation[i]);
    seen[i] = observation[i];
  }
#if @P@_N_PAST > 0
  for (i = 0; i < @P@_N_PAST; i++) {
    const int k = @p@_first[i];
    @p@_real past = state->past[i];
    if (state->steps == 0)
      past = k < @P@_N_OBSERVATIONS ? observation[k] : @p@_before[k - @P@_N_OBSERVATIONS];
    seen[@P@_N_OBSERVATIONS + i] = i < @P@_N_CHANGES ? observation[i] - past : past;
  }
#endif
  if (!finite || !@p@_choose(seen, action)) found = @P@_REFUSED;
#if @P@_N_BLOCKS > 0 && !defined @P@_NO_GUARD
  if (found == @P@_OK && !@p@_is_near(seen, action)) found = @P@_FAR;
#endif
#if @P@_HAS_FALLBACK
  if (found != @P@_OK)
    for (i = 0; i < @P@_N_ACTIONS; i++) action[i] = @p@_fallback[i];
#endif
  if (found == @P@_REFUSED) return found;
#if @P@_N_PAST > 0
  for (i = 0; i < @P@_N_PAST; i++)
    if (@p@_copied[i] < @P@_WIDTH) state->past[i] = seen[@p@_copied[i]];
  @p@_took(state, action);
#endif
  state->steps = 1;
  return found;
}

#endif
