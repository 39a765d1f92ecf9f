"""SepTran under the name of its founding document: ``import septran_compiler as stc``.

Everything here is `septran`'s own; new programs import that.
"""

from septran import compile, explain, load, load_machine, load_mapping

__all__ = ["compile", "explain", "load", "load_machine", "load_mapping"]
