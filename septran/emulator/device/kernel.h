// All that a translated kernel sees.  It is precompiled.
#pragma once
#include "mathematics.h"
#include "scalar.h"
