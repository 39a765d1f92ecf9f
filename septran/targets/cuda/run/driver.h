/* What a launcher asks of a vendor's driver. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What cuda.h declares; written here, so that no toolkit is needed. */
typedef struct { uint64_t opaque[16]; } __attribute__((aligned(64))) EncodedMap;
typedef struct { int32_t id; char pad[4]; uint32_t value[16]; } LaunchAttribute;
typedef struct {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
} LaunchConfig;

typedef struct {
  int (*init)(unsigned);
  int (*get_context)(void**);
  int (*context_device)(int*);
  int (*retain_context)(void**, int);
  int (*push_context)(void*);
  int (*pop_context)(void**);
  int (*load_module)(void**, const void*);
  int (*unload_module)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*set_attribute)(void*, int, int);
  int (*encode)(EncodedMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*,
                const uint32_t*, const uint32_t*, int, int, int, int);
  int (*launch)(const LaunchConfig*, void*, void**, void**);
  int (*allocate)(void**, size_t, void*);
  int (*release)(void*, void*);
  int (*error_string)(int, const char**);
} Driver;
