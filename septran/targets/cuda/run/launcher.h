/* Launch the kernels of one operator: checks of the arguments, tensor maps, launches.
 *
 * Plain C that is C++, too. A `Program` says which kernels run on what; `septran_call` runs it
 * on DLPack tensors with the calling convention of apache-tvm-ffi. The vendor's driver, of which
 * cuda_driver.h or hip_driver.h tells, is opened when it is first needed, so that this can be
 * built and loaded where there is none.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#define MAX_TENSORS 24
#define MAX_AXES 8
#define MAX_ARGUMENTS 24
#define MAX_LAUNCHES 12
#define MAX_SCALARS 16
#define MAX_SCRATCH 16
#define MAX_NAME 128
#define MAX_DEVICES 16
#define MAP_AXES 5

enum { TENSOR_MAP = 0, POINTER = 1, SCALAR = 2 };

/* A tensor that a call passes; its elements lie one after another. */
typedef struct {
  char name[MAX_NAME];
  int32_t code, bits; /* of DLDataType */
  int32_t ndim, alignment;
  int64_t shape[MAX_AXES];
} Tensor;

/* An argument of a kernel. `index` counts the call's tensors and then the scratch buffers, or
 * the scalars. The fields below it are those of cuTensorMapEncodeTiled. */
typedef struct {
  int32_t kind, index;
  int64_t offset; /* bytes */
  int32_t dtype, rank;
  uint64_t extents[MAP_AXES];
  uint64_t strides[MAP_AXES]; /* bytes, of axes 1 and up */
  uint32_t box[MAP_AXES];
  int32_t swizzle;
} Argument;

typedef struct {
  char kernel[MAX_NAME];
  uint32_t grid, block, cluster, shared_bytes;
  int32_t argument_count;
  int32_t dependent; /* whether it may start before the launch before it has ended */
  Argument arguments[MAX_ARGUMENTS];
} Launch;

typedef struct {
  char name[MAX_NAME];
  char arch[16];
  int32_t device_type; /* kDLCUDA, kDLROCM */
  int32_t tensor_count, scalar_count, scratch_count, launch_count, reserved;
  Tensor tensors[MAX_TENSORS];
  int32_t scalar_codes[MAX_SCALARS], scalar_bits[MAX_SCALARS];
  uint64_t scratch_bytes[MAX_SCRATCH];
  Launch launches[MAX_LAUNCHES];
} Program;

#define WAYS 4

/* Tensor maps of the addresses that were used last, for one argument. */
typedef struct {
  void* addresses[WAYS];
  EncodedMap maps[WAYS];
  int next;
} MapCache;

typedef struct Kernel {
  struct Kernel* like; /* whose functions it launches, with a table of its own; NULL: its own */
  struct Kernel* next; /* of those that others may be like */
  int64_t key;         /* of these; 0 for all others */
  void* modules[MAX_DEVICES];
  void* functions[MAX_DEVICES][MAX_LAUNCHES];
  void* contexts[MAX_DEVICES];
  char busy; /* whether a thread is using `caches` or loading */
  const void* code; /* a cubin, or NULL where kernels are linked in */
  int (*find)(void** function, int launch); /* of linked kernels */
  MapCache (*caches)[MAX_ARGUMENTS];
  Program program;
} Kernel;

static Driver driver;
static int driver_ready;

static int failed(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));

#include <stdarg.h>
static int failed(const char* kind, const char* format, ...) {
  char text[512];
  va_list words;
  va_start(words, format);
  vsnprintf(text, sizeof text, format, words);
  va_end(words);
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

static int refused(const Kernel* kernel, const char* what, int status) {
  const char* text = NULL;
  if (driver.error_string) driver.error_string(status, &text);
  return failed("septran.DriverError", "%s: %s failed: %s (%s error %d)", kernel->program.name,
                what, text ? text : "unknown error", DRIVER_INTERFACE, status);
}

static int open_driver(const Kernel* kernel) {
  static const char* const names[] = {DRIVER_FUNCTIONS};
  void* found[sizeof names / sizeof *names];
  const char* libraries[] = {getenv(DRIVER_VARIABLE), DRIVER_LIBRARIES};
  if (__atomic_load_n(&driver_ready, __ATOMIC_ACQUIRE)) return 0;
  void* library = NULL;
  for (size_t i = !libraries[0]; i < (libraries[0] ? 1 : sizeof libraries / sizeof *libraries); i++)
    if ((library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL))) break;
  if (!library)
    return failed("septran.DriverError", "%s: there is no " DRIVER_VENDOR " driver here: %s",
                  kernel->program.name, dlerror());
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    found[i] = dlsym(library, names[i]);
    if (!found[i])
      return failed("septran.DriverError", "%s: the " DRIVER_VENDOR " driver is too old: it has no %s",
                    kernel->program.name, names[i]);
  }
  Driver fresh = adopted(found);
  int status = fresh.init(0);
  driver = fresh;
  if (status) return refused(kernel, names[0], status);
  __atomic_store_n(&driver_ready, 1, __ATOMIC_RELEASE);
  return 0;
}

/* Kernels of one device: loaded, and allowed the shared memory that they ask for. */
static int load(Kernel* kernel, int device) {
  const Program* program = &kernel->program;
  int status;
  if (kernel->code && (status = driver.load_module(&kernel->modules[device], kernel->code)))
    return refused(kernel, status == 209 ? "loading code for another GPU architecture"
                                         : "loading its code", status);
  for (int i = 0; i < program->launch_count; i++) {
    const Launch* launch = &program->launches[i];
    void* function = NULL;
    status = kernel->code
                 ? driver.get_function(&function, kernel->modules[device], launch->kernel)
                 : kernel->find(&function, i);
    if (status) return refused(kernel, launch->kernel, status);
    if (launch->shared_bytes > 48 * 1024 &&
        (status = driver.set_attribute(function, 8, (int)launch->shared_bytes)))
      return refused(kernel, "asking for its shared memory", status);
    if (launch->cluster > 8 && (status = driver.set_attribute(function, 14, 1)))
      return refused(kernel, "asking for its cluster", status);
    kernel->functions[device][i] = function;
  }
  return 0;
}

/* One tensor of a call; its address, or NULL after an error. */
static char* checked(const Kernel* kernel, int index, const TVMFFIAny* given, int* device) {
  const Program* program = &kernel->program;
  const Tensor* wanted = &program->tensors[index];
  const DLTensor* x;
  int64_t compact = 1;
  if (given->type_index == kTVMFFIDLTensorPtr)
    x = (const DLTensor*)given->v_ptr;
  else if (given->type_index == kTVMFFITensor)
    x = (const DLTensor*)((const char*)given->v_obj + sizeof(TVMFFIObject));
  else
    return failed("septran.ArgumentError", "%s: %s is not a tensor", program->name, wanted->name),
           (char*)NULL;
  if (x->dtype.code != wanted->code || x->dtype.bits != wanted->bits || x->dtype.lanes != 1)
    return failed("septran.ArgumentError", "%s: %s has another element type", program->name,
                  wanted->name),
           (char*)NULL;
  if (x->ndim != wanted->ndim)
    return failed("septran.ArgumentError", "%s: %s has %d axes, not %d", program->name,
                  wanted->name, x->ndim, wanted->ndim),
           (char*)NULL;
  for (int axis = wanted->ndim - 1; axis >= 0; axis--) {
    if (x->shape[axis] != wanted->shape[axis])
      return failed("septran.ArgumentError", "%s: axis %d of %s has %lld elements, not %lld",
                    program->name, axis, wanted->name, (long long)x->shape[axis],
                    (long long)wanted->shape[axis]),
             (char*)NULL;
    if (x->strides && x->shape[axis] != 1 && x->strides[axis] != compact)
      return failed("septran.ArgumentError", "%s: %s is not contiguous", program->name,
                    wanted->name),
             (char*)NULL;
    compact *= x->shape[axis];
  }
  if ((int)x->device.device_type != program->device_type || x->device.device_id >= MAX_DEVICES ||
      (*device >= 0 && x->device.device_id != *device))
    return failed("septran.ArgumentError", "%s: %s is not on the same GPU as the other tensors",
                  program->name, wanted->name),
           (char*)NULL;
  *device = x->device.device_id;
  char* address = (char*)x->data + x->byte_offset;
  if ((uintptr_t)address % (uintptr_t)wanted->alignment)
    return failed("septran.ArgumentError", "%s: %s does not start at a multiple of %d bytes",
                  program->name, wanted->name, wanted->alignment),
           (char*)NULL;
  return address;
}

/* A scalar of a call as the bytes of its type. */
static int scalar(const Program* program, int index, const TVMFFIAny* given, void* bytes) {
  int code = program->scalar_codes[index], bits = program->scalar_bits[index];
  int whole = given->type_index == kTVMFFIInt || given->type_index == kTVMFFIBool;
  if (!whole && given->type_index != kTVMFFIFloat)
    return failed("septran.ArgumentError", "%s: scalar %d is not a number", program->name, index);
  double number = whole ? (double)given->v_int64 : given->v_float64;
  float small = (float)number;
  int64_t integer = whole ? given->v_int64 : (int64_t)given->v_float64;
  if (code == kDLFloat && bits == 32)
    memcpy(bytes, &small, 4);
  else if (code == kDLFloat)
    memcpy(bytes, &number, 8);
  else
    memcpy(bytes, &integer, (size_t)bits / 8); /* the low bytes come first */
  return 0;
}

static int encode(const Kernel* kernel, const Argument* a, char* base, EncodedMap* map) {
  static const uint32_t ones[MAP_AXES] = {1, 1, 1, 1, 1};
  int swizzle = a->swizzle == 128 ? 3 : a->swizzle == 64 ? 2 : a->swizzle == 32 ? 1 : 0;
  int status = driver.encode(map, a->dtype, (uint32_t)a->rank, base + a->offset, a->extents,
                             a->strides, a->box, ones, 0, swizzle, 3 /* 256 bytes */, 0);
  return status ? refused(kernel, "cuTensorMapEncodeTiled", status) : 0;
}

/* A tensor map of an address, from the cache where it is there and no other thread uses it. */
static int map_for(Kernel* kernel, int launch, int argument, char* base, EncodedMap* map) {
  const Argument* a = &kernel->program.launches[launch].arguments[argument];
  if (a->index >= kernel->program.tensor_count || /* scratch memory moves */
      __atomic_test_and_set(&kernel->busy, __ATOMIC_ACQUIRE))
    return encode(kernel, a, base, map);
  MapCache* cache = &kernel->caches[launch][argument];
  int way = 0, status = 0;
  while (way < WAYS && cache->addresses[way] != base) way++;
  if (way == WAYS) {
    way = cache->next;
    cache->addresses[way] = NULL;
    status = encode(kernel, a, base, &cache->maps[way]);
    if (!status) cache->addresses[way] = base, cache->next = (way + 1) % WAYS;
  }
  *map = cache->maps[way];
  __atomic_clear(&kernel->busy, __ATOMIC_RELEASE);
  return status;
}

static int start(Kernel* kernel, int index, int device, void* stream, char** addresses,
                 const TVMFFIAny* scalars) {
  const Launch* launch = &kernel->program.launches[index];
  EncodedMap maps[MAX_ARGUMENTS];
  uint64_t words[MAX_ARGUMENTS];
  void* arguments[MAX_ARGUMENTS];
  /* CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
  LaunchAttribute attributes[2] = {{4, {0}, {launch->cluster, 1, 1}}, {6, {0}, {1}}};
  int first = launch->cluster > 1 ? 0 : 1;
  LaunchConfig config = {{launch->grid, 1, 1}, {launch->block, 1, 1}, launch->shared_bytes,
                         stream, attributes + first, (uint32_t)(!first + !!launch->dependent)};
  for (int i = 0; i < launch->argument_count; i++) {
    const Argument* a = &launch->arguments[i];
    arguments[i] = &words[i];
    if (a->kind == TENSOR_MAP) {
      if (map_for(kernel, index, i, addresses[a->index], &maps[i])) return -1;
      arguments[i] = &maps[i];
    } else if (a->kind == POINTER) {
      words[i] = (uint64_t)(uintptr_t)(addresses[a->index] + a->offset);
    } else if (scalar(&kernel->program, a->index, &scalars[a->index], &words[i])) {
      return -1;
    }
  }
  int status = driver.launch(&config, kernel->functions[device][index], arguments, NULL);
  return status ? refused(kernel, launch->kernel, status) : 0;
}

static int run(Kernel* kernel, int device, void* stream, char** addresses,
               const TVMFFIAny* scalars) {
  const Program* program = &kernel->program;
  int held = 0, status = 0;
  for (; held < program->scratch_count && !status; held++) {
    void* memory = NULL;
    status = driver.allocate(&memory, program->scratch_bytes[held], stream);
    addresses[program->tensor_count + held] = (char*)memory;
    if (status) {
      refused(kernel, "allocating scratch memory", status);
      break;
    }
  }
  for (int i = 0; i < program->launch_count && !status; i++)
    status = start(kernel, i, device, stream, addresses, scalars);
  while (held-- > 0) driver.release(addresses[program->tensor_count + held], stream);
  return status ? -1 : 0;
}

/* The device's own context, made current for as long as a call lasts where it is not. */
static int enter(Kernel* kernel, int device, int* pushed) {
  void* context = NULL;
  int current = -1, status = 0;
  *pushed = 0;
  if (!driver.get_context(&context) && context && !driver.context_device(&current) &&
      current == device)
    return 0;
  if (!kernel->contexts[device] &&
      (status = driver.retain_context(&kernel->contexts[device], device)))
    return refused(kernel, "asking for the GPU's context", status);
  if ((status = driver.push_context(kernel->contexts[device])))
    return refused(kernel, "choosing the GPU", status);
  *pushed = 1;
  return 0;
}

static int loaded(Kernel* kernel, int device) {
  if (kernel->like) {
    int failure = loaded(kernel->like, device);
    memcpy(kernel->functions[device], kernel->like->functions[device],
           sizeof kernel->functions[device]);
    return failure;
  }
  int last = kernel->program.launch_count - 1, status = 0;
  void** seen = &kernel->functions[device][last];
  if (__atomic_load_n(seen, __ATOMIC_ACQUIRE)) return 0;
  while (__atomic_test_and_set(&kernel->busy, __ATOMIC_ACQUIRE)) { /* another thread loads */
  }
  if (!*seen) status = load(kernel, device);
  __atomic_clear(&kernel->busy, __ATOMIC_RELEASE);
  return status;
}

static int septran_call(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  Kernel* kernel = (Kernel*)self;
  const Program* program = &kernel->program;
  char* addresses[MAX_TENSORS + MAX_SCRATCH];
  int device = -1, pushed = 0, status;
  result->type_index = kTVMFFINone;
  if (count != program->tensor_count + program->scalar_count)
    return failed("septran.ArgumentError", "%s takes %d tensors and %d scalars, and got %d values",
                  program->name, program->tensor_count, program->scalar_count, count);
  for (int i = 0; i < program->tensor_count; i++)
    if (!(addresses[i] = checked(kernel, i, &args[i], &device))) return -1;
  if (open_driver(kernel) || enter(kernel, device, &pushed)) return -1;
  void* stream = TVMFFIEnvGetStream(program->device_type, device);
  status = loaded(kernel, device) ||
           run(kernel, device, stream, addresses, args + program->tensor_count);
  if (pushed) driver.pop_context(NULL);
  return status ? -1 : 0;
}

static void septran_delete(void* self) {
  Kernel* kernel = (Kernel*)self;
  if (kernel->key) return;
  /* Modules stay: a launch may still be running, and the driver may be gone at exit. */
  free(kernel->caches);
  free((void*)kernel->code);
  free(kernel);
}

static Kernel* septran_kernel(const Program* program) {
  Kernel* kernel = (Kernel*)calloc(1, sizeof(Kernel));
  if (!kernel) return NULL;
  kernel->program = *program;
  kernel->caches = (MapCache(*)[MAX_ARGUMENTS])aligned_alloc(
      64, sizeof(MapCache[MAX_ARGUMENTS]) * (size_t)program->launch_count);
  if (kernel->caches)
    memset(kernel->caches, 0, sizeof(MapCache[MAX_ARGUMENTS]) * (size_t)program->launch_count);
  return kernel;
}
