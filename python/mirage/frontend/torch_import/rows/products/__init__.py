"""Rows of ops that combine rows of two tensors: matrix products, attention, experts, distances."""
