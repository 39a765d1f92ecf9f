import task_lang as task

# 叶子任务：纯粹的逻辑描述，无硬件相关代码
@task.define(leaf=True)
def gemm_leaf_logic(C, A, B):
    """GEMM叶子任务的逻辑定义"""
    task.call_primitive("gemm", C, A, B)

# 复合任务：层次化的算法分解
@task.define
def gemm_block_logic(C, A, B):
    """GEMM块级任务的逻辑分解"""
    # 纯粹的逻辑分解：将大问题分解成小问题
    Cp = task.partition(C, by="blocks", shape_from="A")
    Ap = task.partition(A, by="blocks", shape_from="A") 
    Bp = task.partition(B, by="blocks", shape_from="A")
    
    # 启动下一层级的任务
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_leaf_logic, Cp[i,j], Ap[i,:], Bp[:,j])
