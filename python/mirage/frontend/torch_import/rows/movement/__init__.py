"""Rows of ops that move elements: views, lookups and stores by index, images resized or sampled."""
