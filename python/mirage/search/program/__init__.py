"""What a program is cut into: rewrites of the whole, cuts, partitions, plans."""
