"""PyTorch programs without a search: imported, executed op by op, compared with PyTorch."""
