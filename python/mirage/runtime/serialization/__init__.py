"""Artifacts on disk: manifests, read strictly, the files of kernels, and tensors by name."""
