"""Attention inside of shifted windows, as Swin Transformer has it (Liu et al., ICCV 2021, section
3.2, without the mask of the last windows): a norm, windows of 7 x 7 pixels of a shifted image,
biases by relative positions, and the sum with the input.

mirage optimize examples/window_attention.py
"""

import torch
from torch import Tensor, nn

SIDE, HEADS, WIDTH = 7, 3, 32


class WindowAttention(nn.Module):
    def __init__(self, channels: int = HEADS * WIDTH) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.biases = nn.Parameter(torch.randn((2 * SIDE - 1) ** 2, HEADS) / 50)
        pixels = torch.arange(SIDE)
        places = torch.stack(torch.meshgrid(pixels, pixels, indexing="ij")).flatten(1)
        apart = (places[:, :, None] - places[:, None]).permute(1, 2, 0) + SIDE - 1
        self.register_buffer("index", apart[..., 0] * (2 * SIDE - 1) + apart[..., 1])

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        rows, columns, pixels = height // SIDE, width // SIDE, SIDE * SIDE
        shifted = torch.roll(self.norm(x), (-(SIDE // 2), -(SIDE // 2)), (1, 2))
        windows = shifted.view(batch, rows, SIDE, columns, SIDE, channels).transpose(2, 3)
        heads = self.qkv(windows.reshape(-1, pixels, channels)).view(-1, pixels, 3, HEADS, WIDTH)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        bias = self.biases[self.index.view(-1)].view(pixels, pixels, HEADS).permute(2, 0, 1)
        scores = (q * WIDTH**-0.5) @ k.transpose(-1, -2) + bias
        found = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, pixels, channels)
        image = self.out(found).view(batch, rows, columns, SIDE, SIDE, channels).transpose(2, 3)
        back = image.reshape(batch, height, width, channels)
        return x + torch.roll(back, (SIDE // 2, SIDE // 2), (1, 2))


model = WindowAttention().half()
example_inputs = (torch.randn(2, 28, 28, HEADS * WIDTH).half(),)


if __name__ == "__main__":
    import mirage as mi

    print(mi.from_torch(model, *example_inputs).superoptimize().describe())
