// All of it that is known is in kernel.h.
