"""Programs made small: what the maps and ops of programs say about indices, and small programs that
stand for large ones.
"""
