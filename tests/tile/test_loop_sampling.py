"""The verifier leaves out the middle of long loops: never to another verdict than with all of them.

A producer fills a ring `made` times, a consumer uses `used` fills, the first `peeled` of them
before its loop, as in loops whose products run on into the next iteration.
"""

import pytest

from septran.errors import TileError
from septran.ir.index import Index, Var
from septran.tile.interpret.channel_state import DeadlockError
from septran.tile.verify.verifier import verify

LENGTHS = (3, 5, 8, 9, 10, 11, 12, 13, 15, 16, 24)


def handed(build, part, stages, made, used, peeled, rest=0):
    """Rows of X go to Y through S; `rest` fills are left for after the consumer's loop."""
    rows = max(made, used)
    y, x = build.buffer("Y", "DRAM", (rows, 8)), build.buffer("X", "DRAM", (rows, 8))
    s = build.buffer("S", "SPM", (1, 8), stages=stages)
    ring = build.channel("ring", "DMA_IN", stages, s)

    def use(number):
        at = Index.of(number)
        target = part(y, (at, 0), (1, 8))
        return [
            build.wait(ring, at), build.copy(target, part(s, stage=at % stages)),
            build.release(ring, at),
        ]  # fmt: skip

    p, c = Index.of(Var("p")), Index.of(Var("c"))
    fetch = [
        build.acquire(ring, p),
        build.copy(part(s, stage=p % stages), part(x, (p, 0), (1, 8)), "DMA_IN", ring),
        build.commit(ring, p),
    ]
    producer = build.role("producer", build.loop("p", made, *fetch))
    before = [n for number in range(peeled) for n in use(number)]
    after = [n for number in range(used - rest, used) for n in use(number)]
    loop = build.loop("c", used - peeled - rest, *use(c + peeled))
    consumer = build.role("consumer", *before, loop, *after)
    return build.program("YX", "Y", producer, consumer)


@pytest.mark.parametrize("made", LENGTHS)
@pytest.mark.parametrize(("peeled", "rest"), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (3, 2)])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.one_in(3, first=1)
def test_loops_of_different_lengths_may_hand_over(stages, made, peeled, rest, build, part):
    if made < peeled + rest:
        pytest.skip("no iteration is left")
    program = handed(build, part, stages, made, made, peeled, rest)
    verify(program)
    verify(program, full=True)


@pytest.mark.parametrize("more", [-6, -3, -2, -1, 1, 2, 3, 6])
@pytest.mark.parametrize("made", LENGTHS)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.one_in(5)
def test_a_fill_too_few_or_too_many_is_found(stages, made, more, build, part):
    if made + more < 1:
        pytest.skip("no iteration is left")
    program = handed(build, part, stages, made, made + more, 0)
    with pytest.raises(TileError) as caught:
        verify(program)
    assert isinstance(caught.value, DeadlockError) or "never waited for" in str(caught.value)


def test_a_consumer_without_a_loop_waits_for_the_fills_that_there_are(build, part):
    verify(handed(build, part, 3, 20, 20, 20))
    with pytest.raises(TileError):
        verify(handed(type(build)(), part, 3, 20, 11, 11))
