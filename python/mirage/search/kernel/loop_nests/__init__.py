"""How a kernel divides its work: axes of the grid and of loops, and what loops compute."""
