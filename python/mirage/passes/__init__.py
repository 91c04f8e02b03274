"""Passes written in Python: one module a pass, named after it (`mirage-foo-bar`: `foo_bar`).

`mirage.passes.registry` defines passes and finds them by name. It also finds third-party passes in
a folder `mirage/passes` of the module search path.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
