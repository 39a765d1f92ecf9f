"""Is every rule of what judges programs missed by a test once it is switched off?

``python -m benchmarks.rules`` finds the rules by itself (`python_sites`, `cpp_sites`), asks once
which tests reach each (`children.trace`), switches one off at a time, and runs the tests that
reach it until one fails. A rule that no test misses is a hole. Nothing is written to the
repository's sources: Python modules are changed while a child process imports them, and headers
of the emulator in a copy of their folder, where each rule has a switch, so that its library and
the tests' kernels are compiled once for all rules.
"""
