"""Evidence for and against equivalence: proofs, small models, tests at the real sizes, rounding."""
