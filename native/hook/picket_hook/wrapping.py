"""Wrapping functions and methods so that their calls are phases."""

import functools

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

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        if only is not None and type(args[0]) is not only:
            return original(*args, **kwargs)
        if tracing.is_compiling():
            return tracing.through(borders, original, args, kwargs)
        if before is not None:
            before(args, kwargs)
        if not spans.enter(phase):
            return original(*args, **kwargs)
        try:
            if with_backward is None:
                return original(*args, **kwargs)
            return backward.followed(one, original, args, kwargs)
        finally:
            spans.leave(phase)

    # Dynamo keeps its caches by code object: two wrapped functions must not share one.
    wrapped.__code__ = wrapped.__code__.replace()
    return wrapped
