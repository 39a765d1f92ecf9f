/* Calls the kernels, and compares with what float64 gives. Run it in its own folder. */
#include "@name@.h"

#include "check.h"

int main(int count, char **words) {
  @name@_kernels *kernels = @name@_open(count > 1 ? words[1] : "../@code@");
  if (!kernels) {
    printf("@name@: %s\n", @name@_error());
    return 3;
  }
@made@
  int wrong = @name@(kernels@call@) != 0;
  if (wrong) printf("@name@: %s\n", @name@_error());
@compared@
  @name@_close(kernels);
  return wrong;
}
