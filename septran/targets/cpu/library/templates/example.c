/* Calls every kernel of @name@ on the numbers in data/, and compares what it gives with data/, too.
 * Ends with 0 where all is right. */

#include "@name@.h"

#include "check.h"

@calls@
int main(void) {
  int wrong = 0;
  if (@prefix@_abi() != @upper@_ABI || strcmp(@prefix@_build(), @upper@_BUILD)) {
    printf("the library is not the one of this header\n");
    return 2;
  }
  if (@prefix@_supported() != @upper@_DONE) {
    printf("%s\n", @prefix@_message(@upper@_NO_PROCESSOR));
    return 3;
  }
@uses@
  return wrong;
}
