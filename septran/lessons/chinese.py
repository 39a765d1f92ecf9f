"""The sentences of lessons in Chinese, and patterns for those with figures."""

from __future__ import annotations

SENTENCES = {
    "Lesson": "练习",
    "Goals": "目标",
    "The mapping to mend": "待修改的映射",
    "goal": "目标",
    "found": "实测",
    "hint": "提示",
    "yes": "达到",
    "no": "未达到",
    "NO ": "未达到",
    "passed": "通过",
    "not yet": "还没有",
    "it does not compile yet": "还不能编译",
    "all goals are reached": "所有目标都已达到",
    # titles
    "The best of both": "取两者之长",
    "Who gets which product": "哪个乘法交给谁",
    "Feed the microkernel": "喂饱微内核",
    "Fit the scratchpad": "放进暂存器",
    "Rescale what was summed": "重新缩放已有的和",
    "Overlap the copies": "让拷贝与计算重叠",
    "Share the engines": "分担引擎的工作",
    "A smaller scratchpad": "更小的暂存器",
    "A softmax for large values": "适用于大数值的 softmax",
    "Sums in registers": "累加和放在寄存器里",
    "Sum the rows": "按行求和",
    # stories
    "With blocks of 128 x 128, little has to be brought, but nothing travels while the matrix unit "
    "works. `pipeline: 2` alone changes nothing: two stages of these tiles are larger than the "
    "scratchpad, so there is one. Find a mapping that moves little and hides it.": "用 128 x 128 "
    "的块，要搬的数据很少，但矩阵单元工作时什么都没在搬。只写 `pipeline: 2` "
    "不起作用：这些小块的两级缓冲比暂存器还大，"
    "所以只有一级。请找一个既搬得少、又藏得住的映射。",
    "This machine multiplies with a matrix unit, `mma`, that takes 16 rows at a time, and with "
    "`gemv`, that takes one, at a quarter of its rate. The mapping gives both products of this "
    "logic to `gemv`. Give each to the unit that is faster for it.": "这台机器有两个做乘法的部件："
    "矩阵单元 `mma` 一次处理 16 行；`gemv` 一次处理一行，速率是前者的四分之一。"
    "映射把这份逻辑里的两个乘法都交给了 `gemv`。请把每个乘法交给更快的那个部件。",
    "The microkernel reads B with large strides, and as the blocks are small, the same data is "
    "brought again and again. Mend both, within the L2 cache.": "微内核以很大的跨距读 B；"
    "而且块太小，同样的数据一搬再搬。请把两处都修好，并且不超出 L2 缓存。",
    "These tiles are small, and fetch the same elements again and again. Find some that "
    "still fit into the memories of the machine, and move little.": "这些小块太小，同样的"
    "元素会被反复取来。请找出仍然放得进机器各级存储、搬得又少的小块。",
    "The logarithm of a sum of exponentials, a block of columns at a time: one pass over X, as "
    "flash attention does it. Each block may bring a new maximum, and the sum so far belongs to "
    "the old one. The fold forgets that.": "指数之和的对数，每次处理一块列：只读一遍 X，和 flash "
    "attention 的做法一样。每一块都可能带来新的最大值，而已有的和是相对旧最大值的。"
    "这里的折叠忘了这一点。",
    "The matrix unit of this gemm waits for every tile: each copy starts when the product before "
    "it has ended. Change the mapping so that the next tiles travel while it works.": "这个 gemm "
    "的矩阵单元每个小块都要等：前一次乘法做完，拷贝才开始。请修改映射，让它工作的时候下一批小块就在搬。",
    "Revision B of this NPU has two engines that load, and the pass gives every copy to the second "
    "one, also those that it cannot carry out. Mend the pass: each copy goes to an engine that "
    "moves along its edge, and those that load share the work.": "这款 NPU 的 B 版有两个负责搬入的"
    "引擎，而这个 pass 把所有拷贝都交给第二个，连它做不了的也给了它。请修好这个 pass："
    "每次拷贝交给能走那条路径的引擎，负责搬入的两个引擎分担工作。",
    "This DSA has 64 KiB of scratchpad, and the mapping wants two stages of tiles of 128 x 128 in "
    "float32, 256 KiB. The compiler makes do: it brings them in smaller steps, in one stage, and "
    "nothing travels while the matrix unit works. Find tiles that fit in two.": "这台 DSA "
    "只有 64 KiB 暂存器，而映射要两级 128 x 128 的 float32 小块，共 256 KiB。编译器只好将就："
    "分成更小的步、用一级缓冲来搬，于是矩阵单元工作时什么都没在搬。请找出两级都放得下的小块。",
    "This softmax is right for random numbers, and its check says so. With scores of some hundreds "
    "the exponentials overflow in float32. Mend the leaf.": "这个 softmax 对随机数是对的，"
    "检查也通过。但分数到了几百，指数在 float32 里就溢出了。请修好这个叶子任务。",
    "The sums of this block, `acc`, are placed in shared memory, and wgmma adds to registers: so "
    "they are copied there and back. And while a tile of A or B travels, the tensor cores wait. "
    "Mend both.": "这个块的累加和 `acc` 放在共享内存里，而 wgmma 只往寄存器里累加，"
    "所以它们被来回拷贝；而且搬 A、B 的小块时，张量核心在等。请把两处都修好。",
    "A sum of each row in tiles: rows in blocks, columns in blocks. As it stands, two iterations "
    "of a parallel loop add to the same element. Say what may run at one time, and what comes "
    "after what; a sum starts at zero.": "分块求每一行的和：行分块，列也分块。"
    "现在的写法里，并行循环的两次迭代会往同一个元素上加。请说明哪些可以同时执行、"
    "哪些有先后；另外，和要从零开始。",
    # goals
    "every element is right": "每个元素都正确",
    "copies may land early, late or at random": "拷贝无论早到、晚到还是随机到达，结果都相同",
    "B is packed in panels of columns": "B 按列打包成条",
    "the tiles fit L2": "小块放得进 L2",
    "the result is that of two passes": "结果与分两遍计算的相同",
    "both engines that load are used": "两个负责搬入的引擎都用上",
    "in float32 it is right for scores of some hundreds, too": "分数到几百时，在 float32 里也正确",
    "no bank conflicts": "没有存储体冲突",
    "the sums are NumPy's": "和与 NumPy 的相同",
    # hints
    "the logic and its check say which are wrong": "看逻辑及其检查结果，它会指出哪些元素不对",
    "C's blocks decide how often A and B are read": "A、B 被读多少次，由 C 的块决定",
    "two stages of a step's tiles of A and B have to fit into SPM": "一步里 A、B 的小块，"
    "两级都要放得进 SPM",
    "smaller steps along K begin to compute earlier": "沿 K 的步小一些，就能早点开始计算",
    "a rule's `match` may say `when: C_0 < 4`: rows of the product's tile": "规则的 `match` "
    "里可以写 "
    "`when: C_0 < 4`：乘法小块的行数",
    "the first rule that matches and names a binding wins": "第一条匹配并且写了 binding 的规则生效",
    '`layouts: {B: "panels(1, 16)"}` of the leaf: 16 columns side by side': "叶子任务的 "
    '`layouts: {B: "panels(1, 16)"}`：16 列并排存放',
    "larger blocks of C read A and B less often": "C 的块越大，A、B 读得越少",
    "A's is block_M x block_K, B's block_K x block_N": "A 的是 block_M x block_K，"
    "B 的是 block_K x block_N",
    "A is read N / block_N times, B is read M / block_M times; block_K decides only how much is "
    "there at one time": "A 被读 N / block_N 次，B 被读 M / block_M 次；"
    "block_K 只决定同时有多少在里面",
    "with the new maximum m', the old sum is worth l * exp(m - m')": "换成新的最大值 m' 后，"
    "旧的和相当于 l * exp(m - m')",
    "`pipeline: n` gives the buffers that a loop fills n stages": "`pipeline: n` "
    "让循环填充的缓冲区有 n 级",
    "larger blocks of C: each byte of A and B is then used more often": "把 C 的块放大："
    "A、B 的每个字节就会用得更多",
    "keep a count of what each engine has to carry, and take the least": "记下每个引擎要搬多少，"
    "选最少的那个",
    "both engines should carry as much": "两个引擎应当搬得一样多",
    "keep `pipeline: 2`": "保留 `pipeline: 2`",
    "C's blocks decide how often A and B are read, not block_K": "A、B 被读多少次由 C 的块决定，"
    "与 block_K 无关",
    "subtracting one number from a whole row changes nothing: which one is safe?": "整行减去"
    "同一个数，"
    "结果不变：减哪个数才安全？",
    "place `acc` where wgmma adds": "把 `acc` 放在 wgmma 累加的地方",
    "the profile says which lines collide, and which copies they come from": "剖析结果会指出哪些行"
    "发生冲突，来自哪些拷贝",
    "`pipeline: n` of the block; warpspecialize may come with it": "给块写 `pipeline: n`；"
    "也可以同时写 warpspecialize",
    "parallel over blocks of rows, sequential over blocks of columns": "行块之间并行，"
    "列块之间顺序执行",
    # found
    "the same bits": "逐位相同",
    "results differ with the order": "结果随顺序而变",
    "no copy": "没有拷贝",
    "none of the two": "两个都没用",
}
PATTERNS = (
    (
        r"(\w+): right, error at most (.+) of what rounding allows",
        r"\1 正确，误差最多为舍入所允许的 \2",
    ),
    (r"at most ([\d,]+) cycles", r"最多 \1 个周期"),
    (r"([\d,]+) cycles", r"\1 个周期"),
    (r"(\w+) works in at least (\d+%) of the cycles", r"\1 至少在 \2 的周期里工作"),
    (r"(\d+%) of the cycles", r"占周期的 \1"),
    (r"at most (.+) to and from main memory", r"进出主存最多 \1"),
    (r"(.+), ([\d.]+) times the least", r"\1，是最少量的 \2 倍"),
    (
        r"at least (\d+%) of the bytes of (\w+) and (\w+) travel behind computation",
        r"\2、\3 至少 \1 的字节在计算的掩护下搬运",
    ),
    (r"(\d+%) hidden", r"\1 被掩盖"),
    (r"(\w+) is not copied", r"\1 不被拷贝"),
    (r"(\w+ -> \w+), ([\d,]+) times", r"\1，\2 次"),
    (r"predicted to take at most (.+)", r"预测时间最多 \1"),
    (r"([\d,]+) elements are no number", r"\1 个元素不是数"),
    (r"differs by (.+) of the greatest value", r"与最大值相比，误差为 \1"),
    (r"([\d,]+) accesses to shared memory too many", r"共享内存多访问了 \1 次"),
    (r"(\d+) of (\d+) goals are not reached yet", r"\2 个目标中还有 \1 个没有达到"),
    (r"(\w+) and (\w+)", r"\1 和 \2"),
)
"""Whole texts, tried in order."""
