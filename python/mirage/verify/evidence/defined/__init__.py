"""Whether a candidate is defined wherever its reference is."""
