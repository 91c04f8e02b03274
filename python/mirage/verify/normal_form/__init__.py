"""Normal forms of functions, constants and comparisons that can be written in many ways."""
