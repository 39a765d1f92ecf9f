/* What a kernel that SepTran has written as an object file calls: threads and scratch memory.
 *
 * Compile it with the kernel: cc -O2 -pthread kernel.o c_runtime.c main.c -lm. A program with
 * a pool of threads of its own replaces `launch`; nothing else needs to be known of it. As many
 * threads run as SEPTRAN_THREADS says, or as the system has processors.
 */

#include <pthread.h>
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

static void *work(void *given) {
  Share *share = given;
  share->failed = share->body(share->number, share->group, share->data);
  return NULL;
}

static int processors(void) {
  const char *asked = getenv("SEPTRAN_THREADS");
  long count = asked ? strtol(asked, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
  return count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : (int)count;
}

/* Runs `body` on `wanted` threads, this one among them, or on all of them where it is 0. */
static int launch(Body body, void *data, int wanted) {
  int all = processors(), count = wanted < 1 || wanted > all ? all : wanted, failed = 0;
  Share shares[MOST_THREADS];
  pthread_t threads[MOST_THREADS];
  int started[MOST_THREADS];
  Group group = {NULL, count};
  for (int n = 0; n < count; n++) {
    shares[n] = (Share){body, data, &group, n, 0};
    started[n] = n && !pthread_create(&threads[n], NULL, work, &shares[n]);
  }
  for (int n = 0; n < count; n++) {
    if (started[n])
      pthread_join(threads[n], NULL);
    else
      work(&shares[n]);
    failed |= shares[n].failed;
  }
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
