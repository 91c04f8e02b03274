"""Passes written in Python: one module a pass, named after it (`mirage-foo-bar`: `foo_bar`).

`mirage.passes.registry` says what a pass is and finds passes by name. Passes of others are found
too: those in a folder `mirage/passes` of the module search path.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
