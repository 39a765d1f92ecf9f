/* The functions of @name@.h. Written by SepTran @version@. */

#include "@name@.h"

#include <stdio.h>

const char *@internal@_septran_lacking(const char *const *needs);
void @internal@_septran_set_threads(int32_t count);
int32_t @internal@_septran_threads(void);

/* Which version of a kernel this processor runs: its number, or -1. `known` is 0 at first. */
static int chosen(int *known, const char *const *const *needs) {
  int found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found) return found < 0 ? -1 : found - 1;
  found = -1;
  for (int n = 0; needs[n] && found < 0; n++)
    if (!@internal@_septran_lacking(needs[n])) found = n + 1;
  __atomic_store_n(known, found, __ATOMIC_RELAXED); /* every thread finds the same */
  return found < 0 ? -1 : found - 1;
}

static int away(const void *tensor, size_t bytes) { return (uintptr_t)tensor % bytes != 0; }

@kernels@
/* ------------------------------------------------------------------ what the library says itself */

static const @prefix@_kernel all[] = {
@table@
};
enum { COUNT = sizeof all / sizeof *all };

static int version_of(int32_t kernel) {
  switch (kernel) {
@choices@
  }
  return -1;
}

/* Of each kernel, what its last version needs, which is the one that needs least. */
static const char *const *const least[COUNT] = {@least@};

const @prefix@_kernel *@prefix@_kernels(int32_t *count) {
  if (count) *count = COUNT;
  return all;
}

int32_t @prefix@_supported(void) {
  for (int32_t n = 0; n < COUNT; n++)
    if (version_of(n) < 0) return @upper@_NO_PROCESSOR;
  return @upper@_DONE;
}

const char *@prefix@_lacking(void) {
  for (int32_t n = 0; n < COUNT; n++) {
    const char *first = version_of(n) < 0 ? @internal@_septran_lacking(least[n]) : NULL;
    if (first) return first;
  }
  return "";
}

const char *@prefix@_processor(int32_t kernel) {
  static const char *const *const names[COUNT] = {@names@};
  int version = version_of(kernel);
  return version < 0 ? NULL : names[kernel][version];
}

const char *@prefix@_message(int32_t status) {
  static __thread char text[160];
  switch (status) {
    case @upper@_DONE: return "the results are there";
    case @upper@_NO_PROCESSOR:
      snprintf(text, sizeof text, "@name@ was compiled for processors with %s, which this has not",
               @prefix@_lacking());
      return text;
    case @upper@_NO_POINTER: return "a tensor is NULL";
    case @upper@_NOT_ALIGNED: return "a tensor does not lie at a multiple of its element's size";
    case @upper@_BAD_EXTENT: return "an extent is beyond those that the kernel was made for";
    case @upper@_NO_MEMORY: return "there was no memory for what a kernel needs meanwhile";
  }
  return "no status of @name@";
}

void @prefix@_set_threads(int32_t count) { @internal@_septran_set_threads(count); }
int32_t @prefix@_threads(void) { return @internal@_septran_threads(); }
int32_t @prefix@_abi(void) { return @upper@_ABI; }
const char *@prefix@_build(void) { return @upper@_BUILD; }
