"""Loops without the steps whose tiles a mask empties."""
