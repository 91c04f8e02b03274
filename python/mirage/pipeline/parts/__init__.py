"""The parts of a program, each searched and verified within the available time."""
