"""Tensors whose elements are known at import, written as formulas that kernels compute."""
