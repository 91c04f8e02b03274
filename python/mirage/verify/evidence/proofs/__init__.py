"""Equality as functions of real numbers: small models at random points, and proofs."""
