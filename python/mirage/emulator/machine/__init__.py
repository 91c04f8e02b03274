"""The state of a GPU while a kernel runs: warps, memories, barriers, what waits for what."""
