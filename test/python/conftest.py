"""Makes the shared graphs and helpers importable by tests in sub-folders."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
