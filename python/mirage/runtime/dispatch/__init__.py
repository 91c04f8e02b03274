"""The steps of a plan: calls of PyTorch's ops, and PyTorch's conventions for tensors."""
