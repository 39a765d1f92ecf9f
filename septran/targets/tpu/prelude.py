"""Functions that generated modules have where JAX has other corner cases than the language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

FUNCTIONS: Mapping[str, str] = {
    "_whole": '''\
def _whole(x):
    """The integer part, modulo 2**32; 0 for infinities and NaN."""
    x = x.astype(jnp.float32)
    part = jax.lax.rem(jnp.trunc(x), jnp.float32(2.0**32))
    part = jnp.where(part >= 2.0**31, part - 2.0**32, part)
    part = jnp.where(part < -(2.0**31), part + 2.0**32, part)
    return jnp.where(jnp.abs(x) < jnp.inf, part, 0).astype(jnp.int32)
''',
    "_divided": '''\
def _divided(x, y):
    """The quotient of integers, rounded down; 0 where it is divided by 0."""
    return jnp.where(y == 0, 0, jnp.floor_divide(x, jnp.where(y == 0, 1, y)))
''',
    "_remainder": '''\
def _remainder(x, y):
    """What `_divided` leaves, with the divisor's sign; 0 where it is divided by 0."""
    return jnp.where(y == 0, 0, jnp.remainder(x, jnp.where(y == 0, 1, y)))
''',
    "_power": '''\
def _power(x, y):
    """The power of integers; below 0 it is 1, -1 or 0."""
    x, y = jnp.broadcast_arrays(x, y)
    base = jnp.where((y < 0) & (x != 1) & (x != -1), 0, x)
    left = jnp.where(y < 0, 2 - (y & 1), y)
    found = jnp.ones_like(x)
    for _ in range(32):
        found = jnp.where(left & 1 != 0, found * base, found)
        base, left = base * base, left >> 1
    return found
''',
}


def prelude(names: Iterable[str]) -> str:
    """The text of some of them, in order."""
    wanted = set(names)
    return "\n\n".join(text for name, text in FUNCTIONS.items() if name in wanted)
