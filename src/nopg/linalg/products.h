/* Products with A in numbers of type T, for the rows of one thread. `solve.c` includes
 * this for the numbers of the data, and for float.
 */
static inline T NAME(dot)(const T *x, const T *y, int64_t count) {
  T total[8] = {0}, rest = 0;
  int64_t j = 0;
  for (; j + 8 <= count; j += 8)
    for (int l = 0; l < 8; l++) total[l] += x[j + l] * y[j + l];
  for (; j < count; j++) rest += x[j] * y[j];
  for (int l = 0; l < 8; l++) rest += total[l];
  return rest;
}

/* Entries from e to `end` times what x has in their columns. */
static inline T NAME(gather_dot)(const int32_t *columns, const T *values, const T *x,
                                 int64_t e, int64_t end) {
  T total[8] = {0}, rest = 0;
  for (; e + 8 <= end; e += 8)
    for (int l = 0; l < 8; l++) total[l] += values[e + l] * x[columns[e + l]];
  for (; e < end; e++) rest += values[e] * x[columns[e]];
  for (int l = 0; l < 8; l++) rest += total[l];
  return rest;
}

/* y = A x; others may have made the rest of x. `values` are those of E, or of E' where A
 * is transposed; `spread` has room for a number per row of E. */
static void NAME(multiply)(Member *me, const T *values, const T *x, T *spread, T *y) {
  const System *s = me->team->s;
  int64_t group = s->group, m = s->n * group;
  T gamma = s->gamma;
  if (!me->team->solve->is_transposed) {
    meet(me->team);
    for (int64_t i = me->low; i < me->high; i++) {
      T found = 0;
      for (int64_t row = i * group; row < (i + 1) * group; row++)
        found += s->begins ? NAME(gather_dot)(s->columns, values, x, s->begins[row], s->ends[row])
                           : NAME(dot)(values + row * s->n, x, s->n);
      y[i] = x[i] - gamma * (s->scale ? (T)s->scale[i] * found : found);
    }
    return;
  }
  const T *shares = x;
  if (s->scale) {
    for (int64_t i = me->low; i < me->high; i++)
      for (int64_t k = 0; k < group; k++) spread[i * group + k] = s->scale[i] * x[i];
    shares = spread;
  }
  meet(me->team);
  for (int64_t j = me->low; j < me->high; j++) {
    const int32_t *starts = s->back_starts;
    T found = starts ? NAME(gather_dot)(s->back_columns, values, shares, starts[j], starts[j + 1])
                     : NAME(dot)(values + j * m, shares, m);
    y[j] = x[j] - gamma * found;
  }
}
