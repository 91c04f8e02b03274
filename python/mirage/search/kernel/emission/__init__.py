"""From derivations and sizes to launches, with their combine kernels."""
