"""A single kernel: its frames, its derivations and their costs, and the launches made from them."""
