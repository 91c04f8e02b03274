"""Passes written in Python: one module a pass, named after it (`mirage-foo-bar`: `foo_bar`).

`mirage.passes.registry` says what a pass is and finds passes by name.
"""
