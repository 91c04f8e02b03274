"""The command ``mirage``."""

from mirage.cli.main import main

__all__ = ["main"]
