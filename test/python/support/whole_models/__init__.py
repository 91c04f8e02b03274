"""Popular models at small sizes, from their configurations, with random weights: for tests and for
``benchmarks/models.py``.

from whole_models import measured, model

row = measured(model("llama3"))

The classes are those of Transformers and diffusers; nothing is downloaded."""

from whole_models.catalog import MODELS, Model, model
from whole_models.measuring import measured

__all__ = ["MODELS", "Model", "measured", "model"]
