"""Probes of functions, by `package.module:name` or `package.module:Class.name`."""

import inspect
import sys

from .engines import STEP_FACTS
from .failures import FAILURES
from .wrapping import Timed, timed


class FunctionProbes:
    """Replaces each function when its module has been imported, or at once where it is already."""

    def __init__(self, session, probes):
        self._session = session
        self.watched = [_with_steps(session, Timed(session, probe)) for probe in probes]

    def wants(self, spec):
        return any(spec.name == self._module(one) for one in self.watched)

    def install_loaded(self):
        for name in {self._module(one) for one in self.watched} & sys.modules.keys():
            if not getattr(sys.modules[name].__spec__, "_initializing", False):
                self.arrived(sys.modules[name])

    def arrived(self, module):
        """`module` has been imported."""
        for one in self.watched:
            if self._module(one) == module.__name__ and not one.matches:
                self._replace(module, one)

    @staticmethod
    def _module(one):
        return one.probe.function.partition(":")[0]

    def _replace(self, module, one):
        path = one.probe.function.partition(":")[2].split(".")
        owner = module
        for name in path[:-1]:
            owner = getattr(owner, name, None)
        try:
            held = inspect.getattr_static(owner, path[-1])
        except AttributeError:
            FAILURES.note(one.probe.where, f"{one.probe.function} does not exist; correct the probe's function")
            return
        function = held.__func__ if isinstance(held, (staticmethod, classmethod)) else held
        if problem := _problem(function):
            FAILURES.note(one.probe.where, f"{one.probe.function} {problem}")
            return
        wrapped = timed(function, one)
        if function is not held:
            self._session.patches.set(owner, path[-1], type(held)(wrapped))
        elif owner is module:
            self._session.patches.set_everywhere(owner, path[-1], wrapped)
        else:
            self._session.patches.set(owner, path[-1], wrapped)
        one.matches += 1


def _problem(function):
    if not callable(function) or isinstance(function, type):
        return "is no function"
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        return "runs in pieces (async or generator), so it has no one beginning and end; probe what it calls"
    return None


def _with_steps(session, one):
    if one.probe.steps:
        describe = STEP_FACTS[one.probe.steps]
        one.before = lambda args, kwargs: _tell(session, one, describe, args, kwargs)
        if one.probe.phase == "step":
            one.spans = _StepSpans(session.steps)
    return one


class _StepSpans:
    """The step that was begun before the call ends with it."""

    def __init__(self, steps):
        self._steps = steps

    def enter(self, _phase):
        return True

    def leave(self, _phase):
        self._steps.end()


def _tell(session, one, describe, args, kwargs):
    try:
        session.steps.begin(**describe(*args, **kwargs))
    except Exception as error:
        FAILURES.note(f"{one.probe.where} steps", error)
