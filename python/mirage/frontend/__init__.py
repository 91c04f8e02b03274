"""The front ends: graphs built by hand, and PyTorch modules."""
