"""Calling back when a module has been imported, before anyone can hold a copy of what is about to be replaced."""

import sys

from .failures import FAILURES


class ImportWatch:
    """A finder in front of all others. `arrived(module)` follows the import of modules whose spec is `wanted(spec)`."""

    def __init__(self, wanted, arrived):
        self._wanted, self._arrived = wanted, arrived

    def install(self):
        sys.meta_path.insert(0, self)

    def remove(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        """Part of the import protocol: the spec that the other finders have, with a loader that reports back."""
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                return self._watched(spec)
        return None

    def _watched(self, spec):
        try:
            if hasattr(spec.loader, "exec_module") and self._wanted(spec):
                spec.loader = _ReportingLoader(spec.loader, self._arrived)
        except Exception as error:
            FAILURES.note(f"import of {spec.name}", error)
        return spec


class _ReportingLoader:
    """Stands for a module's loader until the module has been executed."""

    def __init__(self, loader, arrived):
        self._loader, self._arrived = loader, arrived

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            self._arrived(module)
        except Exception as error:
            FAILURES.note(f"after import of {module.__name__}", error)
