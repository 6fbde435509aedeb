"""Probes of torch.nn.Module classes, by class path.

`forward` of a matching class is wrapped, at its first instance: hooks of nn.Module do not fire on roots that vLLM
compiles, and Megatron refuses to capture modules that have them. Late enough that other replacements of `forward`
are inside, and early enough for compilation and graph capture.
"""

import fnmatch
import inspect

from .failures import contained
from .wrapping import Timed, timed


def path_of(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


class ModuleProbes:
    """Watches classes as their instances are made."""

    def __init__(self, session, probes, with_backward):
        self._patches = session.patches
        self._session, self._with_backward = session, with_backward
        self.watched = [Timed(session, probe, with_backward, hands_on=True) for probe in probes]
        self._seen = {}

    def install(self, torch):
        """Sees every module made from now on."""
        original, seen, look_at = torch.nn.Module.__init__, self._seen, self.look_at

        def __init__(self, *args, **kwargs):
            original(self, *args, **kwargs)
            if type(self) not in seen:
                look_at(type(self))

        self._patches.set(torch.nn.Module, "__init__", __init__)

    @contained
    def look_at(self, cls):
        """Wraps `cls.forward` where a probe matches; the first one that does is taken."""
        self._seen.setdefault(cls)
        path = path_of(cls)
        match = next((one for one in self.watched if fnmatch.fnmatchcase(path, one.probe.module)), None)
        if match is not None:
            self._wrap(cls, match)

    def attach(self, model, probe):
        """Probes the class of `model`, which exists already, and looks at those of all modules in it."""
        model = getattr(model, "_orig_mod", model)
        for cls in {type(module) for module in model.modules()}:
            if cls not in self._seen:
                self.look_at(cls)
        if self._seen[type(model)] is None:
            one = Timed(self._session, probe, self._with_backward, hands_on=True)
            self.watched.append(one)
            self._wrap(type(model), one)

    def _wrap(self, cls, one):
        forward = getattr(cls, "forward", None)
        if not inspect.isfunction(forward):
            return
        self._patches.set(cls, "forward", timed(forward, one, cls))
        self._seen[cls] = one
        one.matches += 1
