"""``python -m mirage``: the command."""

from mirage.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
