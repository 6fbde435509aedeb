"""Wrapping functions and methods so that their calls are phases."""

import functools
import types

from . import backward, tracing
from .phases import Phase


class Timed:
    """What is stamped around the calls of one probe."""

    def __init__(self, session, probe, with_backward=False, hands_on=False):
        self.probe = probe
        self.spans = session.spans
        self.phase = Phase(probe.phase, probe.kind, probe.op)
        self.backward = Phase(probe.backward, probe.kind) if with_backward and not self.phase.on_host else None
        self.borders = tracing.Borders(self.phase, self.backward, hands_on)
        self.recorder = session.recorder
        self.before = None
        self.matches = 0


def timed(original, one, only=None):
    """`original` as the phase of `one`. `only`: the class that a method's first argument must be of, exactly."""
    spans, phase, borders, before, with_backward = one.spans, one.phase, one.borders, one.before, one.backward
    compiled, followed, class_of = tracing, backward.followed, type

    def wrapped(*args, **kwargs):
        if only is not None and class_of(args[0]) is not only:
            return original(*args, **kwargs)
        if compiled.is_compiling():
            return compiled.through(borders, original, args, kwargs)
        if before is not None:
            before(args, kwargs)
        if not spans.enter(phase):
            return original(*args, **kwargs)
        try:
            if with_backward is None:
                return original(*args, **kwargs)
            return followed(one, original, args, kwargs)
        finally:
            spans.leave(phase)

    return functools.update_wrapper(_standing_for(original, wrapped), original)


def _standing_for(original, wrapped):
    """`wrapped` with code of its own, by which Dynamo keeps its caches, and the globals of `original`: TorchScript
    reads the source of the one and looks names up in the other."""
    names = getattr(original, "__globals__", wrapped.__globals__)
    return types.FunctionType(wrapped.__code__.replace(), names, wrapped.__name__, None, wrapped.__closure__)
