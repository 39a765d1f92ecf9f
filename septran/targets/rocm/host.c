/* HIP, whose functions are declared here as far as they are used. */
typedef struct {
  void *module;
  int (*init)(unsigned), (*device_count)(int *);
  int (*load)(void **, const void *), (*unload)(void *), (*function)(void **, void *, const char *);
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                void **);
  int (*allocate)(void **, size_t), (*free_memory)(void *), (*copy)(void *, const void *, size_t, int);
} Device;

static int device_functions(Device *device) {
  const char *wish = getenv("HIP_LIBRARY");
  const char *names[] = {wish ? wish : "", "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                         "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so", NULL};
  const Wanted wanted[] = {
      {&device->init, "hipInit"}, {&device->device_count, "hipGetDeviceCount"},
      {&device->load, "hipModuleLoadData"}, {&device->unload, "hipModuleUnload"},
      {&device->function, "hipModuleGetFunction"}, {&device->launch, "hipModuleLaunchKernel"},
      {&device->allocate, "hipMalloc"}, {&device->free_memory, "hipFree"}, {&device->copy, "hipMemcpy"},
  };
  return functions(names, wanted, sizeof wanted / sizeof *wanted);
}

static int device_open(Device *device, const char *code, size_t size) {
  int status, count = 0;
  (void)size;
  if (device_functions(device)) return -1;
  if ((status = device->init(0))) return failed("hipInit", status);
  status = device->device_count(&count);
  if (status || !count) return failed("there is no AMD GPU", status);
  status = device->load(&device->module, code);
  return status ? failed("hipModuleLoadData", status) : 0;
}

static int device_kernel(Device *device, const char *name, void **kernel) {
  int status = device->function(kernel, device->module, name);
  return status ? failed(name, status) : 0;
}

static void *device_memory(Device *device, size_t bytes) {
  void *memory = NULL;
  int status = device->allocate(&memory, bytes ? bytes : 1);
  if (status) failed("hipMalloc", status);
  return status ? NULL : memory;
}

static void device_free(Device *device, void *memory) { device->free_memory(memory); }

static int device_write(Device *device, void *memory, const void *from, size_t bytes) {
  int status = device->copy(memory, from, bytes, 1);
  return status ? failed("hipMemcpy", status) : 0;
}

static int device_read(Device *device, void *memory, void *into, size_t bytes) {
  int status = device->copy(into, memory, bytes, 2);
  return status ? failed("hipMemcpy", status) : 0;
}

static int device_launch(Device *device, void *queue, void *kernel, const Launch *launch,
                         const void *const *arguments) {
  return device->launch(kernel, (unsigned)launch->groups, 1, 1, (unsigned)launch->group, 1, 1,
                        (unsigned)launch->shared_bytes, queue, (void **)arguments, NULL);
}

static void device_close(Device *device, void **kernels) {
  (void)kernels;
  if (device->module) device->unload(device->module);
}
