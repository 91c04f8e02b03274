"""Several candidates of one program, verified together."""
