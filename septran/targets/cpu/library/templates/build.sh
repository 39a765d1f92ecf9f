#!/bin/sh
# Makes the libraries and the examples with a C and a C++ compiler, without CMake.
#
#   sh build.sh             # lib@name@.so, lib@name@.a and the examples, in build/
#   sh build.sh check       # and runs the examples
#   sh build.sh libraries   # the libraries alone, for which C is enough
#
# CC, CXX, AR, CFLAGS, CXXFLAGS, LDFLAGS, OUT (the folder instead of build/) and RUN (what runs the
# examples, such as an emulator) are heeded. CFLAGS=-fopenmp LDFLAGS=-fopenmp runs parallel loops on
# OpenMP's threads. STATIC_ONLY=1 makes no shared library.
set -e
cd "$(dirname "$0")"
CC="${CC:-@cc@}" CXX="${CXX:-@cxx@}" AR="${AR:-@ar@}" OUT="${OUT:-build}"
mkdir -p "$OUT"
for unit in @name@ runtime processor; do
  $CC -std=c11 -O2 -fPIC -fvisibility=hidden -pthread $CFLAGS -Iinclude -c "src/$unit.c" -o "$OUT/$unit.o"
done
OBJECTS="@objects@"
rm -f "$OUT/lib@name@.a"
$AR rcs "$OUT/lib@name@.a" "$OUT/@name@.o" "$OUT/runtime.o" "$OUT/processor.o" $OBJECTS
if [ "$STATIC_ONLY" != 1 ]; then
  $CC -shared -pthread $CFLAGS $LDFLAGS -Wl,-soname,lib@name@.so -o "$OUT/lib@name@.so" \
    "$OUT/@name@.o" "$OUT/runtime.o" "$OUT/processor.o" $OBJECTS -lm
fi
[ "$1" = libraries ] && exit 0
$CC -std=c11 -O2 -pthread $CFLAGS -Iinclude -o "$OUT/example_c" examples/example.c \
  "$OUT/lib@name@.a" $LDFLAGS -lm
if command -v "${CXX%% *}" > /dev/null; then
  $CXX -std=c++17 -O2 -pthread $CXXFLAGS -Iinclude -o "$OUT/example_cpp" examples/example.cpp \
    "$OUT/lib@name@.a" $LDFLAGS -lm
fi
[ "$1" = check ] || exit 0
OUT="$(cd "$OUT" && pwd)"
cd examples
$RUN "$OUT/example_c"
if [ -e "$OUT/example_cpp" ]; then $RUN "$OUT/example_cpp"; fi
