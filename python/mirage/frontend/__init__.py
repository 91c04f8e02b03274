"""Ways in: graphs built by hand and PyTorch modules."""
