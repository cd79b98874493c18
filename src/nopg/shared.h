/* What `rows.c`, `solve.c` and `distil.c` share: numbers, sums, and work in parts.
 *
 * Numbers are double, or float where SINGLE is defined. Sums have eight accumulators of
 * their own: compilers make vectors of these, and the digits are the same whatever they
 * make.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_THREADS 64
#define PATIENCE 2000  /* looks at a clock before a thread lets others have the core */
#define LOOKING 200000 /* nanoseconds that a thread without work looks for some, then it sleeps */

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

/* Pieces from `first` to `last` of some work. */
typedef void (*Work)(const void *job, int64_t first, int64_t last);
typedef struct {
  Work work;
  const void *job;
  int64_t first, last;
} Part;

/* A thread that waits for its next part: to create one for every call takes longer than many calls
 * do. For a while it looks for it again and again, since the next call is often near. */
typedef struct {
  Part part;
  atomic_int *n_left; /* parts of the same work that are not done */
  atomic_uint asked;  /* how many parts it was given */
  int is_taken;
  pthread_mutex_t lock;
  pthread_cond_t wakes;
} Worker;

typedef struct {
  pthread_mutex_t lock;
  int64_t size;
  Worker workers[MOST_THREADS];
} Pool;

/* `compiled.py` lets all files share the first one's: those who look for work would be in the way
 * of those who have some. */
static Pool own_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
Pool *nopg_pool = &own_pool;

static inline void run_part(const Part *part) { part->work(part->job, part->first, part->last); }

static inline int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void *serve(void *given) {
  Worker *own = given;
  for (unsigned done = 0;; done++) {
    int64_t end = nanoseconds() + LOOKING;
    while (atomic_load(&own->asked) == done && nanoseconds() < end) continue;
    if (atomic_load(&own->asked) == done) {
      pthread_mutex_lock(&own->lock);
      while (atomic_load(&own->asked) == done) pthread_cond_wait(&own->wakes, &own->lock);
      pthread_mutex_unlock(&own->lock);
    }
    run_part(&own->part);
    atomic_fetch_sub(own->n_left, 1);
  }
  return NULL;
}

/* A process that was forked has none of them. */
static void without_pool(void) {
  pthread_mutex_init(&nopg_pool->lock, NULL);
  nopg_pool->size = 0;
}

/* Workers that nobody else has, `wanted` at most, and how many they are. */
static inline int64_t hire(int64_t wanted, Worker **team) {
  int64_t n = 0;
  if (wanted < 1) return 0;
  pthread_mutex_lock(&nopg_pool->lock);
  static int is_told;
  if (!is_told) is_told = !pthread_atfork(NULL, NULL, without_pool);
  for (int64_t i = 0; n < wanted && i < MOST_THREADS; i++) {
    Worker *one = &nopg_pool->workers[i];
    if (i == nopg_pool->size) {
      pthread_t thread;
      memset(one, 0, sizeof(*one));
      pthread_mutex_init(&one->lock, NULL);
      pthread_cond_init(&one->wakes, NULL);
      if (!is_told || pthread_create(&thread, NULL, serve, one)) break;
      pthread_detach(thread);
      nopg_pool->size++;
    }
    if (one->is_taken) continue;
    one->is_taken = 1;
    team[n++] = one;
  }
  pthread_mutex_unlock(&nopg_pool->lock);
  return n;
}

static inline void give(Worker *worker, Part part, atomic_int *n_left) {
  worker->part = part;
  worker->n_left = n_left;
  atomic_fetch_add(&worker->asked, 1);
  pthread_mutex_lock(&worker->lock); /* it looks, or it sleeps already */
  pthread_cond_signal(&worker->wakes);
  pthread_mutex_unlock(&worker->lock);
}

/* Wait for workers, and let them go. */
static inline void finish(Worker **team, int64_t n, atomic_int *n_left) {
  if (!n) return;
  for (int64_t looks = 0; atomic_load(n_left); looks++)
    if (looks > PATIENCE) sched_yield();
  pthread_mutex_lock(&nopg_pool->lock);
  for (int64_t i = 0; i < n; i++) team[i]->is_taken = 0;
  pthread_mutex_unlock(&nopg_pool->lock);
}

/* `count` pieces of work, in parts side by side. */
static inline void in_parts(Work work, const void *job, int64_t count, int64_t n_parts) {
  Worker *team[MOST_THREADS];
  n_parts = n_parts < 1 ? 1 : n_parts > MOST_THREADS ? MOST_THREADS : n_parts;
  int64_t n = hire(n_parts - 1, team);
  atomic_int n_left = n;
  for (int64_t i = n_parts - 1; i >= 0; i--) {
    Part part = {work, job, count * i / n_parts, count * (i + 1) / n_parts};
    if (i && i <= n)
      give(team[i - 1], part, &n_left);
    else
      run_part(&part);
  }
  finish(team, n, &n_left);
}

/* Threads that do the same work in step. */
typedef struct {
  atomic_int size, waiting, phase; /* 0 threads until all are there */
} Crew;

/* How many they are, once that is known. */
static inline int crew_size(Crew *crew) {
  int size;
  while (!(size = atomic_load(&crew->size))) sched_yield();
  return size;
}

/* Wait until all of them are here. */
static inline void meet(Crew *crew) {
  int size = atomic_load_explicit(&crew->size, memory_order_relaxed);
  if (size == 1) return;
  int phase = atomic_load(&crew->phase);
  if (atomic_fetch_add(&crew->waiting, 1) + 1 == size) {
    atomic_store(&crew->waiting, 0);
    atomic_fetch_add(&crew->phase, 1);
    return;
  }
  for (int64_t looks = 0; atomic_load(&crew->phase) == phase; looks++)
    if (looks > PATIENCE) sched_yield();
}

/* The work of each of them, numbers `first` to `last` of which are its own: one. */
static inline void in_step(Work work, const void *job, Crew *crew, int64_t wanted) {
  Worker *team[MOST_THREADS];
  int64_t n = hire((wanted < MOST_THREADS ? wanted : MOST_THREADS) - 1, team);
  atomic_int n_left = n;
  atomic_store(&crew->size, n + 1);
  for (int64_t i = 0; i < n; i++) give(team[i], (Part){work, job, i + 1, i + 2}, &n_left);
  work(job, 0, 1);
  finish(team, n, &n_left);
}
