// All that a translated kernel sees.  It is precompiled.
#pragma once
#include "mathematics.h"
#include "scalar.h"
#if EMU_LANES == 64
#include "amdgcn.h"
#endif
