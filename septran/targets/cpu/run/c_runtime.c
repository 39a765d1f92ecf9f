/* What a kernel that SepTran has written as an object file calls: threads and scratch memory.
 *
 * Compile it with the kernel: cc -O2 -pthread kernel.o c_runtime.c main.c -lm. Each call of a
 * kernel starts its threads and waits for them, so that several threads may call at once, and
 * nothing runs between calls. With -fopenmp they are OpenMP's instead, which stay.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#endif
#include <unistd.h>

enum { MOST_THREADS = 256 };

/* The part of a parallel loop that one thread does; 0 when it is done. */
typedef struct {
  void *barrier;
  int32_t threads;
} Group;
typedef int (*Body)(int number, Group *group, void *data);

typedef struct {
  Body body;
  void *data;
  Group *group;
  int number, failed;
} Share;

static int32_t asked; /* by septran_set_threads; 0: by nobody */

static int limited(long count) {
  return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : (int)count;
}

static long processors(void) {
#ifdef __linux__
  cpu_set_t allowed;
  if (!sched_getaffinity(0, sizeof allowed, &allowed)) return CPU_COUNT(&allowed);
#endif
  return sysconf(_SC_NPROCESSORS_ONLN);
}

/* Lets parallel loops run on `count` threads, the caller among them; 0: on as many as there are. */
void septran_set_threads(int32_t count) {
  __atomic_store_n(&asked, count < 0 ? 0 : count, __ATOMIC_RELAXED);
}

/* As many as were set, else as SEPTRAN_THREADS says, else as this thread may use processors. */
int32_t septran_threads(void) {
  int32_t count = __atomic_load_n(&asked, __ATOMIC_RELAXED);
  const char *said = count ? NULL : getenv("SEPTRAN_THREADS");
  return limited(count ? count : said ? strtol(said, NULL, 10) : processors());
}

#ifdef _OPENMP
static void run(Share *shares, int count) {
#pragma omp parallel for num_threads(count) schedule(static, 1)
  for (int n = 0; n < count; n++)
    shares[n].failed = shares[n].body(n, shares[n].group, shares[n].data);
}
#else
static void *work(void *given) {
  Share *share = given;
  share->failed = share->body(share->number, share->group, share->data);
  return NULL;
}

/* What no thread could be started for is done by this one. */
static void run(Share *shares, int count) {
  pthread_t threads[MOST_THREADS];
  int started[MOST_THREADS];
  for (int n = 1; n < count; n++)
    started[n] = !pthread_create(&threads[n], NULL, work, &shares[n]);
  work(&shares[0]);
  for (int n = 1; n < count; n++) {
    if (started[n])
      pthread_join(threads[n], NULL);
    else
      work(&shares[n]);
  }
}
#endif

/* Runs `body` on `wanted` threads, this one among them, or on all of them where it is 0. */
static int launch(Body body, void *data, int wanted) {
  int all = septran_threads(), count = wanted < 1 || wanted > all ? all : wanted, failed = 0;
  Share shares[MOST_THREADS];
  Group group = {NULL, count};
  for (int n = 0; n < count; n++) shares[n] = (Share){body, data, &group, n, 0};
  run(shares, count);
  for (int n = 0; n < count; n++) failed |= shares[n].failed;
  return failed ? -1 : 0;
}

static void *allocate(int device, int number, uint64_t bytes, int kind, int bits) {
  void *room = NULL;
  (void)device, (void)number, (void)kind, (void)bits;
  if (posix_memalign(&room, 64, bytes ? bytes : 1)) return NULL;
#ifdef SEPTRAN_POISON
  memset(room, 0xff, bytes); /* NaN, so that it shows where nothing was written */
#endif
  return room;
}

static int release(int device, int number, void *room) {
  (void)device, (void)number;
  free(room);
  return 0;
}

/* Asks Linux to let this process use AMX's tile registers (ARCH_REQ_XCOMP_PERM of
 * XFEATURE_XTILEDATA); 0 when it does. Kernels that use them call it first. */
int32_t septran_ask_for_tiles(void) {
#ifdef SYS_arch_prctl
  return syscall(SYS_arch_prctl, 0x1023, 18) ? -1 : 0;
#else
  return -1;
#endif
}

/* The names under which kernels know these functions. */
int (*__TVMBackendParallelLaunch)(Body, void *, int) = launch;
void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = allocate;
int (*__TVMBackendFreeWorkspace)(int, int, void *) = release;

/* Why a kernel will not return 0: there was no memory, or no permission. */
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  (void)kind, (void)parts, (void)count;
}
