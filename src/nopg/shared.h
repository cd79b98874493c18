/* What every C file of this library begins with: vectors of eight numbers, with the
 * types of gcc and clang, and work shared among threads.
 *
 * Numbers are double, or float where SINGLE is defined.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define MOST_THREADS 64

#ifdef SINGLE
typedef float real;
typedef int32_t whole;
#define EPSILON 0x1p-23f
#define LOWEST -87.0f /* where e^x ends */
#define ROUND 0x1.8p23f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define MANTISSA 23
#define BIAS 127
#define TERMS {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}
#define N_TERMS 8
#else
typedef double real;
typedef int64_t whole;
#define EPSILON 0x1p-52
#define LOWEST -700.0
#define ROUND 0x1.8p52
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#define MANTISSA 52
#define BIAS 1023
#define TERMS {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, \
               1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}
#define N_TERMS 13
#endif

typedef real vec __attribute__((vector_size(LANES * sizeof(real))));
typedef whole ivec __attribute__((vector_size(LANES * sizeof(real))));

static inline vec splat(real x) { return x - (vec){0}; }

static inline vec load(const real *x) {
  vec v;
  memcpy(&v, x, sizeof v);
  return v;
}

static inline real sum(vec v) {
  return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* 2^n e^r with |r| <= ln 2 / 2: Taylor's series to the last bit. */
static inline vec exp_of(vec x) {
  const vec round = splat(ROUND);
  const real terms[] = TERMS;
  ivec is_low = x < splat(LOWEST);
  x = (vec)((is_low & (ivec)splat(LOWEST)) | (~is_low & (ivec)x));
  vec shifted = x * (real)1.4426950408889634 + round, n = shifted - round;
  vec r = (x - n * LN2_HIGH) - n * LN2_LOW;
  vec p = splat(terms[0]);
  for (int i = 1; i < N_TERMS; i++) p = p * r + terms[i];
  return p * (vec)(((ivec)shifted - (ivec)round + BIAS) << MANTISSA);
}

/* Pieces from `first` to `last` of some work. */
typedef void (*Work)(const void *job, int64_t first, int64_t last);
typedef struct {
  Work work;
  const void *job;
  int64_t first, last;
} Part;

static void *run_part(void *given) {
  Part *part = given;
  part->work(part->job, part->first, part->last);
  return NULL;
}

/* `count` pieces of work, in parts side by side. */
static inline void in_parts(Work work, const void *job, int64_t count, int64_t n_parts) {
  n_parts = n_parts < 1 ? 1 : n_parts > MOST_THREADS ? MOST_THREADS : n_parts;
  Part parts[MOST_THREADS];
  pthread_t threads[MOST_THREADS];
  int is_running[MOST_THREADS];
  for (int64_t i = 0; i < n_parts; i++)
    parts[i] = (Part){work, job, count * i / n_parts, count * (i + 1) / n_parts};
  for (int64_t i = 1; i < n_parts; i++)
    is_running[i] = !pthread_create(&threads[i], NULL, run_part, &parts[i]);
  run_part(&parts[0]);
  for (int64_t i = 1; i < n_parts; i++)
    if (is_running[i])
      pthread_join(threads[i], NULL);
    else
      run_part(&parts[i]);
}
