"""The division of a program into kernels: rewrites of the whole, cuts, partitions, plans."""
