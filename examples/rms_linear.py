"""RMS normalisation with a gain, then a linear layer: a PyTorch module.

mirage optimize examples/rms_linear.py
"""

import torch
from torch import nn


class RmsLinear(nn.Module):
    """The first half of a Llama-like attention layer: norm, then the projection to queries, keys
    and values.
    """

    def __init__(self, features: int = 4096, outputs: int = 6144, eps: float = 1e-6) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(features, eps=eps, dtype=torch.float16)
        self.proj = nn.Linear(features, outputs, bias=False, dtype=torch.float16)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.1)
        nn.init.normal_(self.proj.weight, std=features**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(self.norm(x))


torch.manual_seed(0)
rms_linear = RmsLinear().requires_grad_(False)
example_inputs = (torch.randn(8, 4096).half(),)


if __name__ == "__main__":
    import mirage as mi

    optimized = mi.from_torch(rms_linear, *example_inputs).superoptimize()
    print(optimized.describe())
