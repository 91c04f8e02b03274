"""The state of a GPU while a kernel runs: warps, memories, barriers and wait lists."""
