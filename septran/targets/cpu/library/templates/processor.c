/* What the processor and the system have of what the kernels were compiled for.
 *
 * Features have LLVM's names. For x86-64 they are bits of CPUID (Intel's manual, volume 2A), and
 * registers that the system must save, by XCR0 (volume 1, chapter 13); for aarch64 they are bits of
 * Linux's HWCAP (Documentation/arch/arm64/elf_hwcaps.rst). Elsewhere nothing is asked.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int32_t septran_ask_for_tiles(void);
const char *septran_lacking(const char *const *needs);

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
enum { VECTORS = 0x6, LONG_VECTORS = 0xe6, TILES = 0x60000 };

typedef struct {
  const char *name;
  uint32_t leaf, subleaf, place, bit, saved;
} Feature;

static const Feature features[] = {
  {"sse3", 1, 0, ECX, 0, 0},
  {"pclmul", 1, 0, ECX, 1, 0},
  {"ssse3", 1, 0, ECX, 9, 0},
  {"fma", 1, 0, ECX, 12, VECTORS},
  {"cx16", 1, 0, ECX, 13, 0},
  {"sse4.1", 1, 0, ECX, 19, 0},
  {"sse4.2", 1, 0, ECX, 20, 0},
  {"movbe", 1, 0, ECX, 22, 0},
  {"popcnt", 1, 0, ECX, 23, 0},
  {"aes", 1, 0, ECX, 25, 0},
  {"avx", 1, 0, ECX, 28, VECTORS},
  {"f16c", 1, 0, ECX, 29, VECTORS},
  {"bmi", 7, 0, EBX, 3, 0},
  {"avx2", 7, 0, EBX, 5, VECTORS},
  {"bmi2", 7, 0, EBX, 8, 0},
  {"avx512f", 7, 0, EBX, 16, LONG_VECTORS},
  {"avx512dq", 7, 0, EBX, 17, LONG_VECTORS},
  {"adx", 7, 0, EBX, 19, 0},
  {"avx512ifma", 7, 0, EBX, 21, LONG_VECTORS},
  {"avx512cd", 7, 0, EBX, 28, LONG_VECTORS},
  {"sha", 7, 0, EBX, 29, 0},
  {"avx512bw", 7, 0, EBX, 30, LONG_VECTORS},
  {"avx512vl", 7, 0, EBX, 31, LONG_VECTORS},
  {"avx512vbmi", 7, 0, ECX, 1, LONG_VECTORS},
  {"avx512vbmi2", 7, 0, ECX, 6, LONG_VECTORS},
  {"gfni", 7, 0, ECX, 8, 0},
  {"vaes", 7, 0, ECX, 9, VECTORS},
  {"vpclmulqdq", 7, 0, ECX, 10, VECTORS},
  {"avx512vnni", 7, 0, ECX, 11, LONG_VECTORS},
  {"avx512bitalg", 7, 0, ECX, 12, LONG_VECTORS},
  {"avx512vpopcntdq", 7, 0, ECX, 14, LONG_VECTORS},
  {"amx-bf16", 7, 0, EDX, 22, TILES},
  {"avx512fp16", 7, 0, EDX, 23, LONG_VECTORS},
  {"amx-tile", 7, 0, EDX, 24, TILES},
  {"amx-int8", 7, 0, EDX, 25, TILES},
  {"avxvnni", 7, 1, EAX, 4, VECTORS},
  {"avx512bf16", 7, 1, EAX, 5, LONG_VECTORS},
  {"avxifma", 7, 1, EAX, 23, VECTORS},
  {"lzcnt", 0x80000001, 0, ECX, 5, 0},
  {"sse4a", 0x80000001, 0, ECX, 6, 0},
  {"prfchw", 0x80000001, 0, ECX, 8, 0},
};

/* The registers that the system saves when it switches threads: XCR0, or 0 where it says nothing. */
static uint64_t saved(void) {
  uint32_t a, b, c, d, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | a;
}

static int has(const char *name) {
  for (size_t n = 0; n < sizeof features / sizeof *features; n++) {
    const Feature *f = &features[n];
    uint32_t found[4] = {0, 0, 0, 0};
    if (strcmp(f->name, name)) continue;
    if (!__get_cpuid_count(f->leaf, f->subleaf, &found[EAX], &found[EBX], &found[ECX], &found[EDX]))
      return 0;
    if (!(found[f->place] >> f->bit & 1) || (saved() & f->saved) != f->saved) return 0;
    return strcmp(name, "amx-tile") || septran_ask_for_tiles() == 0;
  }
  return 0; /* a name that is not known here is no feature that one may count on */
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>

typedef struct {
  const char *name;
  unsigned long word, bits;
} Feature;

enum { FIRST = 16, SECOND = 26 }; /* AT_HWCAP, AT_HWCAP2 */

static const Feature features[] = {
  {"neon", FIRST, 1ul << 1},
  {"aes", FIRST, 1ul << 3},
  {"sha2", FIRST, 1ul << 6},
  {"crc", FIRST, 1ul << 7},
  {"lse", FIRST, 1ul << 8},
  {"fullfp16", FIRST, 1ul << 9 | 1ul << 10},
  {"rdm", FIRST, 1ul << 12},
  {"jsconv", FIRST, 1ul << 13},
  {"complxnum", FIRST, 1ul << 14},
  {"rcpc", FIRST, 1ul << 15},
  {"dotprod", FIRST, 1ul << 20},
  {"sve", FIRST, 1ul << 22},
  {"fp16fml", FIRST, 1ul << 23},
  {"rcpc-immo", FIRST, 1ul << 26},
  {"flagm", FIRST, 1ul << 27},
  {"sve2", SECOND, 1ul << 1},
  {"i8mm", SECOND, 1ul << 13},
  {"bf16", SECOND, 1ul << 14},
};

static int has(const char *name) {
  if (!strncmp(name, "sve-bytes-", 10)) {
    long bytes = prctl(51) & 0xffff, wanted = 0; /* PR_SVE_GET_VL */
    for (const char *digit = name + 10; *digit; digit++) wanted = 10 * wanted + (*digit - '0');
    return bytes == wanted; /* the code is for registers of this length alone */
  }
  for (size_t n = 0; n < sizeof features / sizeof *features; n++)
    if (!strcmp(features[n].name, name))
      return (getauxval(features[n].word) & features[n].bits) == features[n].bits;
  return 0;
}

#else
static int has(const char *name) {
  (void)name;
  return 1;
}
#endif

/* The first of the names that this processor, or the system, has not; NULL where it has all. */
const char *septran_lacking(const char *const *needs) {
  for (; *needs; needs++)
    if (!has(*needs)) return *needs;
  return NULL;
}
