"""Programs made small: the statements that a program's maps and ops make about indices, and small
programs that stand for large ones.
"""
