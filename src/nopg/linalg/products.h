/* Sums of products of numbers of type T. `solve.c` includes this for the numbers of the
 * data, and for float.
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
