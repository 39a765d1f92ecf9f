/* What the examples read, compare and print with. For C and C++. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for a tensor at a multiple of 64 bytes, which no kernel asks for. Given back by free(). */
static inline void *new_tensor(size_t count, size_t bytes) {
  size_t size = (count * bytes + 63) / 64 * 64;
  void *room = aligned_alloc(64, size ? size : 64);
  if (!room) {
    fprintf(stderr, "no memory\n");
    exit(2);
  }
  memset(room, 0xff, size ? size : 64); /* NaN, so that it shows where nothing was written */
  return room;
}

/* The numbers of a file, as they lie in memory. */
static inline void *read_tensor(const char *path, size_t count, size_t bytes) {
  void *room = new_tensor(count, bytes);
  FILE *file = fopen(path, "rb");
  if (!file || fread(room, bytes, count, file) != count) {
    fprintf(stderr, "%s cannot be read; run the example in its own folder\n", path);
    exit(2);
  }
  fclose(file);
  return room;
}

static inline double small_float(uint32_t bits, int exponent_bits, int fraction_bits, int infinite) {
  int sign = bits >> (exponent_bits + fraction_bits) & 1, most = (1 << exponent_bits) - 1;
  int exponent = bits >> fraction_bits & most, bias = most >> 1;
  uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  double value = exponent ? ldexp(1.0 + ldexp((double)fraction, -fraction_bits), exponent - bias)
                          : ldexp((double)fraction, 1 - bias - fraction_bits);
  if (exponent == most && infinite) value = fraction ? (double)NAN : (double)INFINITY;
  /* e4m3fn has no infinity, and one pattern of bits that is no number */
  if (exponent == most && !infinite && fraction == (1u << fraction_bits) - 1) value = (double)NAN;
  return sign ? -value : value;
}

/* The number n of a tensor. */
static inline double number(const char *dtype, const void *data, size_t n) {
  if (!strcmp(dtype, "float32")) return (double)((const float *)data)[n];
  if (!strcmp(dtype, "float64")) return ((const double *)data)[n];
  if (!strcmp(dtype, "float16")) return small_float(((const uint16_t *)data)[n], 5, 10, 1);
  if (!strcmp(dtype, "bfloat16")) return small_float(((const uint16_t *)data)[n], 8, 7, 1);
  if (!strcmp(dtype, "float8_e5m2")) return small_float(((const uint8_t *)data)[n], 5, 2, 1);
  if (!strcmp(dtype, "float8_e4m3fn")) return small_float(((const uint8_t *)data)[n], 4, 3, 0);
  if (!strcmp(dtype, "int8")) return ((const int8_t *)data)[n];
  if (!strcmp(dtype, "int16")) return ((const int16_t *)data)[n];
  if (!strcmp(dtype, "int32")) return ((const int32_t *)data)[n];
  if (!strcmp(dtype, "int64")) return (double)((const int64_t *)data)[n];
  if (!strcmp(dtype, "uint16")) return ((const uint16_t *)data)[n];
  if (!strcmp(dtype, "uint32")) return ((const uint32_t *)data)[n];
  if (!strcmp(dtype, "uint64")) return (double)((const uint64_t *)data)[n];
  return ((const uint8_t *)data)[n]; /* uint8 and bool */
}

/* Compares a result, element by element, with what float64 gives and the error that rounding
 * allows, and says so; returns how many elements are wrong. A bound that is infinite allows all. */
static inline int compare(const char *what, const char *dtype, const void *found, size_t count,
                          const double *exact, const double *bound) {
  size_t wrong = 0, first = 0;
  double worst = 0;
  for (size_t n = 0; n < count; n++) {
    double value = number(dtype, found, n), error = fabs(value - exact[n]);
    if (value == exact[n] || (isnan(value) && isnan(exact[n])) || isinf(bound[n])) continue;
    if (!(error <= bound[n])) {
      if (!wrong++) first = n;
      continue;
    }
    if (error > worst * bound[n]) worst = error / bound[n];
  }
  if (wrong)
    printf("%s: %zu of %zu elements are wrong; number %zu is %.9g instead of %.9g\n", what, wrong,
           count, first, number(dtype, found, first), exact[first]);
  else
    printf("%s: right, error at most %.2g of what rounding allows\n", what, worst);
  return wrong != 0;
}

#endif
