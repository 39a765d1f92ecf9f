// Calls every kernel of @name@ in C++, from four threads at once, and compares each result.
// Ends with 0 where all is right.

#include "@name@.h"

#include "check.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

// The numbers of a file.
template <typename T>
std::vector<T> read(const char *path, std::size_t count) {
  T *room = static_cast<T *>(read_tensor(path, count, sizeof(T)));
  std::vector<T> found(room, room + count);
  std::free(room);
  return found;
}

@calls@
}  // namespace

int main() {
  if (@prefix@_supported() != @upper@_DONE) {
    std::printf("%s\n", @prefix@_message(@upper@_NO_PROCESSOR));
    return 3;
  }
  @prefix@_set_threads(2);
  std::int32_t count = 0;
  const @prefix@_kernel *kernels = @prefix@_kernels(&count);
  for (std::int32_t n = 0; n < count; n++) {
    std::printf("%s: %s, code for %s\n", kernels[n].name, kernels[n].summary,
                @prefix@_processor(n));
    for (std::int32_t t = 0; t < kernels[n].tensor_count; t++)
      std::printf("  %s %s %s\n", kernels[n].tensors[t].name, kernels[n].tensors[t].dtype,
                  kernels[n].tensors[t].extents);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int n = 0; n < 4; n++) callers.emplace_back([&wrong] {
@uses@
  });
  for (std::thread &caller : callers) caller.join();
  std::printf(wrong ? "wrong\n" : "right in all threads\n");
  return wrong != 0;
}
