"""A program of its own: ``hiprtc_child.py LIBRARY ARCH SOURCE CODE``; compiles by hipRTC.

hipRTC of an early ROCm ends its process at an architecture that it does not know. It writes the
version to standard output, and what the compiler said to standard error.
"""

import ctypes
import sys
from pathlib import Path


def main(library: str, arch: str, source: str, code: str) -> int:
    """Compile one text; the status of hipRTC, 0 where it went well."""
    rtc = ctypes.CDLL(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    rtc.hiprtcVersion(ctypes.byref(major), ctypes.byref(minor))
    sys.stdout.write(f"{major.value}.{minor.value}")
    options = [f"--offload-arch={arch}", "-O3", "-std=c++17", "-ffp-contract=off"]
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    text = Path(source).read_bytes()
    status = rtc.hiprtcCreateProgram(ctypes.byref(program), text, b"kernel.hip", 0, None, None)
    status = status or rtc.hiprtcCompileProgram(program, len(options), given)
    if not rtc.hiprtcGetProgramLogSize(program, ctypes.byref(size)) and size.value:
        said = ctypes.create_string_buffer(size.value)
        rtc.hiprtcGetProgramLog(program, said)
        sys.stderr.write(said.value.decode(errors="replace"))
    status = status or rtc.hiprtcGetCodeSize(program, ctypes.byref(size))
    if not status:
        made = ctypes.create_string_buffer(size.value)
        status = rtc.hiprtcGetCode(program, made)
        Path(code).write_bytes(made.raw)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
