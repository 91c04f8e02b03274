"""What programs hold besides arithmetic, as inputs that both share: tensors, positions, bounds of
loops, results of calls.
"""
