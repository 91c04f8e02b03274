"""A gallery of layers as people write them, for tests and benchmarks.

from gallery import case, cases

for c in cases("bert*"):
    layer = c.build("small")          # or "real"
    mirage.from_torch(layer.module, *layer.inputs, allow_fallback=c.fallback)

Layers are the classes of PyTorch, Transformers and diffusers with random weights (nothing is
downloaded), or written here after the model's description. Packages are imported only if a case
needs them.
"""

from gallery.case import Case, Layer, MissingPackageError, Width
from gallery.registry import case, cases

__all__ = ["Case", "Layer", "MissingPackageError", "Width", "case", "cases"]
