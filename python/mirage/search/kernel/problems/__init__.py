"""Kernel problems: what a kernel computes, and the views and copies of tensors that it reads."""
