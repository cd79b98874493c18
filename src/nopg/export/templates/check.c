/* Rows of (observation, past, is first) in, (found, action, past) out; then the time. */
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { N_IN = @P@_N_OBSERVATIONS + @P@_N_PAST + 1, REPEATS = 10 };

int main(int argc, char **argv) {
  const long n = argc > 1 ? atol(argv[1]) : 0;
  double *rows = malloc(sizeof(double) * N_IN * (size_t)n);
  clock_t begun, ended;
  long i, repeat;
  int j, sum = 0;
  if (!rows || fread(rows, sizeof(double), N_IN * (size_t)n, stdin) != N_IN * (size_t)n)
    return 1;
  begun = ended = clock();
  for (repeat = 0; repeat <= REPEATS; repeat++) {
    for (i = 0; i < n; i++) {
      const double *row = rows + i * N_IN;
      @p@_real observation[@P@_N_OBSERVATIONS];
      @p@_action action[@P@_N_ACTIONS] = {0};
      @p@_state state;
      int found;
      for (j = 0; j < @P@_N_OBSERVATIONS; j++) observation[j] = (@p@_real)row[j];
      @p@_reset(&state);
#if @P@_N_PAST > 0
      for (j = 0; j < @P@_N_PAST; j++)
        state.past[j] = (@p@_real)row[@P@_N_OBSERVATIONS + j];
#endif
      state.steps = row[N_IN - 1] == 0.0;
      found = @p@_act(&state, observation, action);
      sum += found;
      if (repeat < REPEATS) continue;
      printf("%d", found);
      for (j = 0; j < @P@_N_ACTIONS; j++) printf(" %.17g", (double)action[j]);
#if @P@_N_PAST > 0
      for (j = 0; j < @P@_N_PAST; j++) printf(" %.17g", (double)state.past[j]);
#endif
      printf("\n");
    }
    if (repeat == REPEATS - 1) ended = clock();
  }
  fprintf(stderr, "%.9g %d\n",
          (double)(ended - begun) / CLOCKS_PER_SEC / REPEATS / (double)(n ? n : 1), sum);
  free(rows);
  return 0;
}
