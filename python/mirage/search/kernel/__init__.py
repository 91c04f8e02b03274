"""One kernel: frames, derivations, their costs, and launches made of them."""
