"""The facts about AMD GPUs that layers below the targets need."""

from septran.backends import Backend

# No code is generated for them yet, so no kernel takes tensors anywhere. A device of "cuda" (which
# torch says of AMD's GPUs, too) would have a call ask for a GPU or the emulator instead of
# saying that there is no code generator.
BACKEND = Backend("rocm")
