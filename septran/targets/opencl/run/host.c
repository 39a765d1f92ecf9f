/* OpenCL, whose functions are declared here as far as they are used. */
typedef struct {
  void *device, *context, *queue, *program;
  int32_t (*platforms)(uint32_t, void **, uint32_t *);
  int32_t (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
  int32_t (*info)(void *, uint32_t, size_t, void *, size_t *);
  void *(*new_context)(const intptr_t *, uint32_t, void *const *, void *, void *, int32_t *);
  void *(*new_queue)(void *, void *, uint64_t, int32_t *);
  void *(*new_program)(void *, uint32_t, const char **, const size_t *, int32_t *);
  int32_t (*build)(void *, uint32_t, void *const *, const char *, void *, void *);
  int32_t (*build_info)(void *, void *, uint32_t, size_t, void *, size_t *);
  void *(*new_kernel)(void *, const char *, int32_t *);
  int32_t (*set_argument)(void *, uint32_t, size_t, const void *);
  void *(*new_buffer)(void *, uint64_t, size_t, void *, int32_t *);
  int32_t (*write)(void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, void *, void *);
  int32_t (*read)(void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *, void *);
  int32_t (*launch)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *,
                    void *);
  int32_t (*free_memory)(void *), (*free_kernel)(void *), (*free_program)(void *), (*free_queue)(void *),
      (*free_context)(void *);
} Device;

static int device_functions(Device *device) {
  const char *wish = getenv("OPENCL_LIBRARY");
  const char *names[] = {wish ? wish : "", "libOpenCL.so.1", "libOpenCL.so", NULL};
  const Wanted wanted[] = {
      {&device->platforms, "clGetPlatformIDs"}, {&device->devices, "clGetDeviceIDs"},
      {&device->info, "clGetDeviceInfo"}, {&device->new_context, "clCreateContext"},
      {&device->new_queue, "clCreateCommandQueue"}, {&device->new_program, "clCreateProgramWithSource"},
      {&device->build, "clBuildProgram"}, {&device->build_info, "clGetProgramBuildInfo"},
      {&device->new_kernel, "clCreateKernel"}, {&device->set_argument, "clSetKernelArg"},
      {&device->new_buffer, "clCreateBuffer"}, {&device->write, "clEnqueueWriteBuffer"},
      {&device->read, "clEnqueueReadBuffer"}, {&device->launch, "clEnqueueNDRangeKernel"},
      {&device->free_memory, "clReleaseMemObject"}, {&device->free_kernel, "clReleaseKernel"},
      {&device->free_program, "clReleaseProgram"}, {&device->free_queue, "clReleaseCommandQueue"},
      {&device->free_context, "clReleaseContext"},
  };
  return functions(names, wanted, sizeof wanted / sizeof *wanted);
}

/* The first device of any platform, or the first whose name has what SEPTRAN_OPENCL says. */
static int device_found(Device *device) {
  void *platforms[16], *devices[16];
  uint32_t count = 0, each = 0;
  const char *wish = getenv("SEPTRAN_OPENCL");
  int status = device->platforms(16, platforms, &count);
  for (uint32_t p = 0; !status && p < count && p < 16; p++) {
    if (device->devices(platforms[p], 0xffffffff, 16, devices, &each)) continue;
    for (uint32_t n = 0; n < each && n < 16; n++) {
      char name[256] = "";
      device->info(devices[n], 0x102b, sizeof name - 1, name, NULL);
      if (wish && !strstr(name, wish)) continue;
      device->device = devices[n];
      return 0;
    }
  }
  return failed("there is no such OpenCL device", status);
}

static int device_open(Device *device, const char *text, size_t size) {
  int32_t status = 0;
  uint64_t floats = 0;
  if (device_functions(device) || device_found(device)) return -1;
  device->context = device->new_context(NULL, 1, &device->device, NULL, NULL, &status);
  if (status) return failed("clCreateContext", status);
  device->queue = device->new_queue(device->context, device->device, 0, &status);
  if (status) return failed("clCreateCommandQueue", status);
  device->program = device->new_program(device->context, 1, &text, &size, &status);
  if (status) return failed("clCreateProgramWithSource", status);
  /* Quotients and roots are rounded correctly where the device can. */
  device->info(device->device, 0x101b, sizeof floats, &floats, NULL);
  const char *options = floats >> 7 & 1 ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
  if ((status = device->build(device->program, 1, &device->device, options, NULL, NULL))) {
    char log[3072] = "";
    device->build_info(device->program, device->device, 0x1183, sizeof log - 1, log, NULL);
    snprintf(error, sizeof error, "clBuildProgram: error %d of the driver\n%s", (int)status, log);
  }
  return status;
}

static int device_kernel(Device *device, const char *name, void **kernel) {
  int32_t status = 0;
  *kernel = device->new_kernel(device->program, name, &status);
  return status ? failed(name, status) : 0;
}

static void *device_memory(Device *device, size_t bytes) {
  int32_t status = 0;
  void *memory = device->new_buffer(device->context, 1, bytes ? bytes : 1, NULL, &status);
  if (status) failed("clCreateBuffer", status);
  return status ? NULL : memory;
}

static void device_free(Device *device, void *memory) { device->free_memory(memory); }

static int device_write(Device *device, void *memory, const void *from, size_t bytes) {
  int status = device->write(device->queue, memory, 1, 0, bytes, from, 0, NULL, NULL);
  return status ? failed("clEnqueueWriteBuffer", status) : 0;
}

static int device_read(Device *device, void *memory, void *into, size_t bytes) {
  int status = device->read(device->queue, memory, 1, 0, bytes, into, 0, NULL, NULL);
  return status ? failed("clEnqueueReadBuffer", status) : 0;
}

static int device_launch(Device *device, void *queue, void *kernel, const Launch *launch,
                         const void *const *arguments) {
  size_t items = launch->groups * launch->group;
  for (int n = 0; n < launch->count; n++) {
    size_t bytes = launch->arguments[n].bytes;
    int status = device->set_argument(kernel, (uint32_t)n, bytes ? bytes : sizeof(void *), arguments[n]);
    if (status) return status;
  }
  return device->launch(queue ? queue : device->queue, kernel, 1, NULL, &items, &launch->group, 0, NULL, NULL);
}

static void device_close(Device *device, void **kernels) {
  for (int n = 0; n < LAUNCHES; n++)
    if (kernels[n]) device->free_kernel(kernels[n]);
  if (device->program) device->free_program(device->program);
  if (device->queue) device->free_queue(device->queue);
  if (device->context) device->free_context(device->context);
}
