"""The gated half of a SwiGLU feed-forward layer, silu(x W1) * (x W2): a PyTorch module.

mirage optimize examples/swiglu.py
"""

import torch
from torch import nn
from torch.nn import functional as F


class SwiGlu(nn.Module):
    """Two projections of the same rows, one through silu, multiplied."""

    def __init__(self, features: int = 4096, hidden: int = 4096) -> None:
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False, dtype=torch.float16)
        self.up = nn.Linear(features, hidden, bias=False, dtype=torch.float16)
        for layer in (self.gate, self.up):
            nn.init.normal_(layer.weight, std=features**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


torch.manual_seed(0)
swiglu = SwiGlu().requires_grad_(False)
example_inputs = (torch.randn(8, 4096).half(),)


if __name__ == "__main__":
    import mirage as mi

    optimized = mi.from_torch(swiglu, *example_inputs).superoptimize()
    print(optimized.describe())
