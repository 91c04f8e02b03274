"""Pairs of PyTorch programs as people write them: the same program twice, and programs that are
nearly the same."""
