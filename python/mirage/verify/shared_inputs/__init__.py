"""The parts of programs other than arithmetic, as inputs that both programs share: tensors,
positions, bounds of loops, and results of calls.
"""
