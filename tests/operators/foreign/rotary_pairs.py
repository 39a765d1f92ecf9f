"""Rotary embedding of neighbours, not halves, at positions that a tensor says.

In and Out [Tok, Hd, W], the cosines C and sines S [Pos, W / 2], where [Tok] of 0 to Pos - 1.
"""

from septran import task

EXAMPLE = {"Tok": 128, "Hd": 8, "Pos": 256, "W": 64}
CASES = ({"Tok": 40, "Hd": 3, "Pos": 64, "W": 32}, {"Tok": 7, "Hd": 2, "Pos": 9, "W": 66})


@task.define(leaf=True)
def spin(even, odd, a, b, c, s):
    even[:, :] = a * c - b * s
    odd[:, :] = b * c + a * s


@task.define
def rotary_pairs(
    Out: task.Tensor["Tok", "Hd", "W"],
    In: task.Tensor["Tok", "Hd", "W"],
    C: task.Tensor["Pos", "W // 2"],
    S: task.Tensor["Pos", "W // 2"],
    where: task.Tensor["Tok", task.int64],
):
    rows = task.tunable("chunk")
    half = In.shape[2] // 2
    o = Out.reshape(Out.shape[0], Out.shape[1], half, 2)
    x = In.reshape(In.shape[0], In.shape[1], half, 2)
    Op = task.partition(o, shape=(rows, o.shape[1], half, 2))
    Xp = task.partition(x, shape=(rows, o.shape[1], half, 2))
    Cp, Sp = (task.partition(task.gather(t, where), shape=(rows, half)) for t in (C, S))
    for i, h in task.parallel_range(Op.shape[0], In.shape[1]):
        y = [Op[i, 0, 0, 0][:, h, :, n] for n in (0, 1)]
        z = [Xp[i, 0, 0, 0][:, h, :, n] for n in (0, 1)]
        task.launch(spin, *y, *z, Cp[i, 0], Sp[i, 0])
