/* The host's side of @name@: its launches, and the driver that it loads when it is opened. */
#include "@name@.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = @tensors@, SCRATCH = @scratch@, LAUNCHES = @launches@, ARGUMENTS = @most@ };

/* A tensor or scratch memory by its number, or, where it has bytes, a scalar of the call. */
typedef struct {
  int index;
  size_t bytes;
} Argument;

typedef struct {
  const char *kernel;
  size_t groups, group, shared_bytes;
  int count;
  Argument arguments[ARGUMENTS];
} Launch;

static const Launch LAUNCHED[LAUNCHES] = {
@table@};
static const size_t BYTES[TENSORS + SCRATCH] = {@bytes@};
static const char READ[TENSORS] = {@read@}, WRITTEN[TENSORS] = {@written@};

static _Thread_local char error[4096];

static int failed(const char *what, int status) {
  snprintf(error, sizeof error, "%s: error %d of the driver", what, status);
  return status ? status : -1;
}

static void *loaded(const char *const *names) {
  for (; *names; names++) {
    void *library = **names ? dlopen(*names, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library) return library;
  }
  snprintf(error, sizeof error, "no driver is found: %s", dlerror());
  return NULL;
}

/* A function of the driver, and where its address goes. */
typedef struct {
  void *place;
  const char *name;
} Wanted;

static int functions(const char *const *libraries, const Wanted *wanted, size_t count) {
  void *library = loaded(libraries);
  if (!library) return -1;
  for (; count--; wanted++) {
    void *function = dlsym(library, wanted->name);
    if (!function) return failed(wanted->name, -1);
    memcpy(wanted->place, &function, sizeof function);
  }
  return 0;
}

@driver@
struct @name@_kernels {
  Device device;
  void *functions[LAUNCHES], *scratch[SCRATCH + 1];
};

static char *text_of(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  long end = -1;
  if (file && !fseek(file, 0, SEEK_END)) end = ftell(file);
  if (end >= 0 && (text = malloc((size_t)end + 1))) {
    rewind(file);
    *size = fread(text, 1, (size_t)end, file);
    text[*size] = 0;
  }
  if (file) fclose(file);
  if (!text) snprintf(error, sizeof error, "%s cannot be read", path);
  return text;
}

void @name@_close(@name@_kernels *kernels) {
  if (!kernels) return;
  for (int n = 0; n < SCRATCH; n++)
    if (kernels->scratch[n]) device_free(&kernels->device, kernels->scratch[n]);
  device_close(&kernels->device, kernels->functions);
  free(kernels);
}

@name@_kernels *@name@_open(const char *code) {
  size_t size = 0;
  char *text = text_of(code, &size);
  @name@_kernels *kernels = text ? calloc(1, sizeof *kernels) : NULL;
  int wrong = !kernels || device_open(&kernels->device, text, size);
  for (int n = 0; !wrong && n < LAUNCHES; n++)
    wrong = device_kernel(&kernels->device, LAUNCHED[n].kernel, &kernels->functions[n]);
  for (int n = 0; !wrong && n < SCRATCH; n++)
    wrong = !(kernels->scratch[n] = device_memory(&kernels->device, BYTES[TENSORS + n]));
  free(text);
  if (!wrong) return kernels;
  @name@_close(kernels);
  return NULL;
}

int32_t @name@_enqueue(@name@_kernels *kernels, void *queue, void *const tensors[@tensors@]@numbers@) {
  const void *numbers[] = {@addresses@NULL};
  for (int n = 0; n < LAUNCHES; n++) {
    const Launch *launch = &LAUNCHED[n];
    const void *arguments[ARGUMENTS];
    for (int i = 0; i < launch->count; i++) {
      int index = launch->arguments[i].index;
      if (launch->arguments[i].bytes)
        arguments[i] = numbers[index];
      else
        arguments[i] = index < TENSORS ? &tensors[index] : (const void *)&kernels->scratch[index - TENSORS];
    }
    int status = device_launch(&kernels->device, queue, kernels->functions[n], launch, arguments);
    if (status) return failed(launch->kernel, status);
  }
  return 0;
}

int32_t @name@(@name@_kernels *kernels@prototype@) {
  const void *const host[TENSORS] = {@pointers@};
  void *tensors[TENSORS] = {NULL};
  int status = 0;
  for (int n = 0; !status && n < TENSORS; n++) {
    if (!(tensors[n] = device_memory(&kernels->device, BYTES[n]))) status = -1;
    if (!status && READ[n]) status = device_write(&kernels->device, tensors[n], host[n], BYTES[n]);
  }
  if (!status) status = @name@_enqueue(kernels, NULL, tensors@passed@);
  for (int n = 0; n < TENSORS; n++) {
    /* Reading waits for all that is before it. */
    if (!status && WRITTEN[n]) status = device_read(&kernels->device, tensors[n], (void *)host[n], BYTES[n]);
    if (tensors[n]) device_free(&kernels->device, tensors[n]);
  }
  return status;
}

const char *@name@_error(void) { return error; }
@more@
