#!/bin/sh
# Builds the example with cc@needs@; `sh build.sh check` runs it, too.
set -e
cd "$(dirname "$0")"
@compile@${CC:-cc} -std=c11 -O2 -Wall ${CFLAGS:-} -Iinclude src/@name@.c examples/example.c -o examples/example -ldl -lm ${LDFLAGS:-}
if [ "${1:-}" = check ]; then cd examples && ./example; fi
