/* Runs the control program of every core against the recorder, which does nothing but note what it is
 * asked for, and compares that with data/commands. Ends with 0 where they are the same. */

#include "@name@.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As the recorder has it. */
typedef struct {
  int32_t code, core, line, pad;
  int64_t arguments[@count@];
} Record;

void @begin@(int32_t core);
int64_t @take@(const void **first);

static void read_all(const char *path, void *room, size_t bytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(room, 1, bytes, file) != bytes) {
    fprintf(stderr, "%s cannot be read; run the example in its own folder\n", path);
    exit(2);
  }
  fclose(file);
}

int main(void) {
  long total = 0;
  Record wanted;
  (void)read_all; /* where no table is read */
@tables@
  FILE *file = fopen("data/commands", "rb");
  if (!file) {
    fprintf(stderr, "data/commands cannot be read; run the example in its own folder\n");
    return 2;
  }
  for (int32_t core = 0; core < @upper@_CORES; core++) {
    const void *first = NULL;
    @begin@(core);
    @name@(core@passed@);
    int64_t count = @take@(&first);
    const Record *found = first;
    for (int64_t n = 0; n < count; n++, total++) {
      if (fread(&wanted, sizeof wanted, 1, file) != 1 || memcmp(&wanted, &found[n], sizeof wanted)) {
        printf("core %d: command %ld is another one\n", (int)core, (long)n);
        return 1;
      }
    }
    if (count < 0) return 2;
  }
  if (fread(&wanted, 1, 1, file)) {
    printf("there are commands after the last one\n");
    return 1;
  }
  printf("@name@: %ld commands, as they should be\n", total);
  fclose(file);
  return 0;
}
