"""What is done with programs beside optimizing them."""
