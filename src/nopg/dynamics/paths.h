/* Paths in a learned model, as `rollout.c` makes them and goes back along them. */
#include <stdint.h>

/* Steps of n_paths paths; arrays are (n_steps, n_paths, ...), states[0] is given. If the
 * probability that each is `running` is given as well, which is kept up to date, a path that is
 * GONE stays where it is and earns nothing. */
typedef struct {
  int64_t n_paths, n_steps;
  const double *draws;
  double *running, *states, *actions, *reached, *following, *rewards, *terminated, *left;
  double *continuing;
} Rollout;

/* dU_t / da_t along paths: see `rollout_gradients`. Arrays are those of a Rollout; by_state
 * (n_steps, n_paths, d_a, d_s) is dpi / ds. */
typedef struct {
  int64_t n_paths, n_steps;
  double gamma, worst;
  const double *credit, *by_state, *draws, *states, *actions, *reached, *following, *rewards;
  const double *terminated, *left, *continuing;
  double *gradients;
} Backward;
