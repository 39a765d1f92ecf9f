#!/bin/sh
# Makes the control program @name@ with the recorder in the place of the vendor's library.
#
#   sh build.sh          # build/@name@.o and build/example
#   sh build.sh check    # and runs the example
set -e
cd "$(dirname "$0")"
OUT="${OUT:-build}"
mkdir -p "$OUT"
FLAGS="-std=c11 -O2 -Iinclude -I@vendor@ $CFLAGS"
${CC:-cc} $FLAGS -c src/@name@.c -o "$OUT/@name@.o"
${CC:-cc} $FLAGS -o "$OUT/example" examples/example.c recorder/recorder.c "$OUT/@name@.o"
[ "$1" = check ] || exit 0
OUT="$(cd "$OUT" && pwd)"
cd examples
"$OUT/example"
