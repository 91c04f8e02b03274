"""A linear layer with a low-rank adapter, x W + (x A) B: a function of tensors.

mirage optimize examples/lora.py:lora
"""

import torch


def lora(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``x (rows, k)``, ``w (k, n)``, ``a (k, rank)``, ``b (rank, n)``."""
    return x @ w + (x @ a) @ b


torch.manual_seed(0)
example_inputs = (
    torch.randn(8, 256).half(),
    (torch.randn(256, 4096) / 16).half(),
    (torch.randn(256, 16) / 16).half(),
    (torch.randn(16, 4096) / 4).half(),
)


if __name__ == "__main__":
    import mirage as mi

    optimized = mi.from_torch(lora, *example_inputs).superoptimize()
    print(optimized.describe())
