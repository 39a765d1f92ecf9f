// A tensor map; SepTran's host side fills it in (tensor_maps.py).
#pragma once
struct alignas(64) CUtensorMap {
  uint64_t opaque[16];
};
