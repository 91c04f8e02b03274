"""The table of torch ops: a row for each op, by family, and the tools that rows share."""
