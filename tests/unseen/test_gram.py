"""A product of a tensor with itself: sums that come through two memories go back through both."""

from __future__ import annotations

GRAM = """
    @task.define(leaf=True)
    def step(G, X):
        task.call_primitive("gemm", G, X.T, X)

    @task.define
    def gram(G: task.Tensor["N", "N"], X: task.Tensor["M", "N"]):
        Xp = task.partition(X, shape=(task.tunable("block_K", 16), X.shape[1]))
        for i in task.parallel_range(1):
            task.fill(G, 0)
            for k in task.sequential_range(Xp.shape[0]):
                task.launch(step, G, Xp[k, 0])
"""


def test_a_product_of_a_tensor_with_itself_over_the_callers_sums(machine, logic, right):
    right(logic("gram", GRAM), machine, {"M": 40, "N": 30}, tunables={"block_K": 16})
