/* Work in parts, by threads of one pool for all files. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__) && __has_include(<linux/futex.h>)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define MOST_THREADS 64
#define LOOKS 64       /* at a number before a thread looks at the clock */
#define WAITING 100000 /* nanoseconds that a thread looks for others to come, then it sleeps */
#define LOOKING 200000 /* the same of a thread without work, which looks for some */
#define ASLEEP (1 << 30) /* added to a number of parts that somebody waits for asleep */

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

/* Asleep a thread is the first to run once there is something to do; one that lets others have the
 * core comes after all of these, if the machine is busy: thousands of times as late. */
static inline void sleep_on(atomic_int *number, int value) {
#ifdef FUTEX_WAIT_PRIVATE
  syscall(SYS_futex, number, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
  sched_yield();
#endif
}

static inline void wake(atomic_int *number) {
#ifdef FUTEX_WAKE_PRIVATE
  syscall(SYS_futex, number, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#endif
}

/* Whether a number changes from `value`, or becomes it, while one looks. */
static inline int is_seen(atomic_int *number, int value, int is_awaited) {
  int64_t end = 0;
  for (int64_t looks = 1; (atomic_load(number) == value) != is_awaited; looks++) {
    if (looks % LOOKS) continue;
    int64_t now = nanoseconds();
    if (!end) end = now + WAITING;
    if (now > end) return 0;
  }
  return 1;
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
    atomic_int *n_left = own->n_left;
    if (atomic_fetch_sub(n_left, 1) == (ASLEEP | 1)) wake(n_left);
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
  if (!is_seen(n_left, 0, 1)) {
    int left = atomic_fetch_or(n_left, ASLEEP) | ASLEEP;
    for (; left != ASLEEP; left = atomic_load(n_left)) sleep_on(n_left, left);
  }
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
  atomic_int size, waiting, phase, asleep; /* 0 threads until all are there */
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
    if (atomic_load(&crew->asleep)) wake(&crew->phase);
    return;
  }
  if (is_seen(&crew->phase, phase, 0)) return;
  atomic_fetch_add(&crew->asleep, 1);
  while (atomic_load(&crew->phase) == phase) sleep_on(&crew->phase, phase);
  atomic_fetch_sub(&crew->asleep, 1);
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
