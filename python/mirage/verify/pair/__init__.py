"""One candidate and its reference: the attempts, their order, and the conclusions."""
