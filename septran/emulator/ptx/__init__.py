"""PTX as C++: inline assembly of CUDA text, and whole modules, whoever's compiler wrote them."""
