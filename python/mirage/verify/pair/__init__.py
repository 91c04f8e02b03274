"""One candidate and its reference: what is tried in which order, and what follows from it."""
