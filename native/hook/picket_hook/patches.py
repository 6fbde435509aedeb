"""Replacing attributes of other packages, in such a way that all of it can be undone."""

import sys
import types

_ABSENT = object()


class Patches:
    """What has been replaced, newest last."""

    def __init__(self):
        self._undo = []

    def set(self, owner, name, value):
        """Sets `owner.name`, where `owner` is a module, class or function."""
        before = _held(owner, name)
        setattr(owner, name, value)
        self._undo.append((owner, name, before, value))

    def set_everywhere(self, owner, name, value):
        """set(), and the same in every loaded module that holds the old value: `from owner import name` made a copy."""
        before = getattr(owner, name)
        self.set(owner, name, value)
        for module in list(sys.modules.values()):
            if module is owner or type(module) is not types.ModuleType:
                continue
            for alias, held in list(vars(module).items()):
                if held is before:
                    self.set(module, alias, value)

    def undo(self):
        """Puts back what was there, except where someone else has replaced it since."""
        while self._undo:
            owner, name, before, value = self._undo.pop()
            if _held(owner, name) is not value:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


def _held(owner, name):
    # Of a class its own entry: getattr would unwrap a staticmethod and look into base classes.
    return vars(owner).get(name, _ABSENT) if isinstance(owner, type) else getattr(owner, name, _ABSENT)
