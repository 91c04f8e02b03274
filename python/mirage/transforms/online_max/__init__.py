"""The online maximum: exponentials made safe from overflow."""
