"""The way of a program: from what is handed over to what can be called."""
