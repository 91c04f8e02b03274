"""The stages of a program, from the source that the user hands over to a callable."""
