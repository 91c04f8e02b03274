"""The parts of a program, each searched and verified within the time that there is."""
