"""Capture of a module by ``torch.export``: the program as a graph of fixed ops, prepared for
conversion, and its arguments and results."""
