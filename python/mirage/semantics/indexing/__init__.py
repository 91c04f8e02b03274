"""Where elements stand: indices, strides, and where views take theirs from."""
