"""The public functions: what a verb or a Python user calls. A name's module is imported when the name is first used.

The names are those of `__init__.pyi`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
