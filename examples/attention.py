"""Attention of 64 heads with one token each, written with the builder.

mirage optimize examples/attention.py
"""

import mirage as mi

graph = mi.new_kernel_graph("attention")
Q = graph.new_input(dims=(64, 1, 128), dtype=mi.float16, name="Q")
K = graph.new_input(dims=(64, 128, 4096), dtype=mi.float16, name="K")
V = graph.new_input(dims=(64, 4096, 128), dtype=mi.float16, name="V")
A = graph.matmul(Q, K)
S = graph.softmax(A)
O = graph.matmul(S, V)
graph.mark_output(O)


if __name__ == "__main__":
    optimized = graph.superoptimize()
    print(optimized.describe())

    import torch

    if torch.cuda.is_available():
        shapes = [(64, 1, 128), (64, 128, 4096), (64, 4096, 128)]
        q, k, v = (torch.randn(shape, dtype=torch.float16, device="cuda") for shape in shapes)
        (out,) = optimized(inputs=[q, k, v])
        print(out.shape)
