/* What `rows.c`, `solve.c`, `distil.c` and others share: numbers and sums, and parts.h.
 *
 * Numbers are double, or float where SINGLE is defined. Sums have eight accumulators of
 * their own: compilers make vectors of these, and the digits are the same whatever they
 * make.
 */
#include "parts.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef SINGLE
typedef float real;
typedef int32_t whole;
#define EPSILON 0x1p-23f
#define LOWEST -87.0f /* e^x is 0 below */
#define ROUND 0x1.8p23f
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f
#define MANTISSA 23
#define BIAS 127
#define TERMS 8
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
#define TERMS 13
#endif

/* 2^n e^r with |r| <= ln 2 / 2: Taylor's series to the last bit. */
static inline real exp_of(real x) {
  static const real terms[] = {
      1.0, 1.0, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
      1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600};
  const real round = ROUND;
  real y = x < LOWEST ? LOWEST : x;
  real shifted = y * (real)1.4426950408889634 + round, n = shifted - round, power;
  real r = (y - n * LN2_HIGH) - n * LN2_LOW, r2 = r * r, r4 = r2 * r2;
  /* Terms in fours, side by side: none waits for all before it. */
  real p = (terms[4] + terms[5] * r) + (terms[6] + terms[7] * r) * r2;
  if (TERMS > 8)
    p += ((terms[8] + terms[9] * r) + (terms[10] + terms[11] * r) * r2 + terms[12] * r4) * r4;
  p = (terms[0] + terms[1] * r) + (terms[2] + terms[3] * r) * r2 + p * r4;
  whole bits, zero;
  memcpy(&bits, &shifted, sizeof bits);
  memcpy(&zero, &round, sizeof zero);
  bits = (bits - zero + BIAS) << MANTISSA;
  memcpy(&power, &bits, sizeof power);
  return x < LOWEST ? 0 : p * power;
}

/* Registers that any processor has, for what compilers do not see by themselves. */
typedef real Lanes __attribute__((vector_size(16), aligned(sizeof(real)), may_alias));
typedef whole Bits __attribute__((vector_size(16)));
#define LANES (int64_t)(16 / sizeof(real))

static inline Lanes larger(Lanes a, Lanes b) {
  Bits is_first = a > b;
  return (Lanes)(((Bits)a & is_first) | ((Bits)b & ~is_first));
}

static inline real sum_of(Lanes x) {
  real total = x[0] + x[1];
  return sizeof(real) == 8 ? total : total + (x[2 % LANES] + x[3 % LANES]);
}

static inline real sum8(const real *a) {
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

static inline real dot(const real *x, const real *y, int64_t count) {
  real total[8] = {0}, rest = 0;
  int64_t j = 0;
  for (; j + 8 <= count; j += 8)
    for (int l = 0; l < 8; l++) total[l] += x[j + l] * y[j + l];
  for (; j < count; j++) rest += x[j] * y[j];
  return sum8(total) + rest;
}
