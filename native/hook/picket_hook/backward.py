"""Backward passes: the whole of it around torch.autograd.backward, and that of each probed module.

A module's backward begins when autograd is about to run the node that made its output, and ends when the gradients of
its inputs are complete. For the latter each input gets a view of its own, whose node nothing outside the module uses.
Hooks sit on nodes of the graph; no function of ours is in it, so in-place operations stay allowed.
"""

import functools
import sys
import threading

from . import tracing
from .failures import FAILURES, contained
from .structures import collect, is_tensor

WAITING, RUNNING, DONE = range(3)
_forward = threading.local()  # .span: innermost probed module whose forward runs
_running = threading.local()  # .spans: backward spans open in this thread, outermost first


class Span:
    """Backward pass of one call of a module."""

    __slots__ = ("inputs", "parent", "phase", "recorder", "state")

    def __init__(self, one, parent):
        self.phase, self.recorder, self.parent = one.backward, one.recorder, parent
        self.state = WAITING
        self.inputs = 0

    @contained
    def begin(self, _gradients):
        """An output's node is about to run."""
        if self.state != WAITING:
            return
        spans = _running.__dict__.setdefault("spans", [])
        if not spans:
            engine = sys.modules["torch"].autograd.Variable._execution_engine
            engine.queue_callback(lambda: close_down_to(spans, None))
        if self.parent in spans:
            close_down_to(spans, self.parent)  # a sibling whose inputs got no gradient
        if self.recorder.begin(self.phase):
            self.state = RUNNING
            spans.append(self)

    @contained
    def input_done(self, _gradients):
        """The gradient of one input is complete."""
        self.inputs -= 1
        if self.inputs > 0:
            return
        spans = _running.__dict__.get("spans", [])
        if self.state == RUNNING and self in spans:
            close_down_to(spans, self)
            spans.pop()
            self.close()
        self.state = DONE

    def close(self):
        self.state = DONE
        self.recorder.end(self.phase)


def close_down_to(spans, last):
    """Ends the innermost spans until `last` is the innermost; all for None."""
    while spans and spans[-1] is not last:
        spans.pop().close()


def followed(one, original, args, kwargs):
    """`original(*args, **kwargs)` such that the backward pass through it is stamped as `one.backward`."""
    torch = sys.modules["torch"]
    if not torch.is_grad_enabled():
        return original(*args, **kwargs)
    parent = getattr(_forward, "span", None)
    span = _forward.span = Span(one, parent)
    try:
        args, kwargs = _watch_inputs(span, args, kwargs)
        result = original(*args, **kwargs)
    finally:
        _forward.span = parent
    if span.inputs:
        _watch_outputs(span, result)
    return result


def _watch_inputs(span, args, kwargs):
    try:
        seen = tuple(_watched(span, value) for value in args), {k: _watched(span, v) for k, v in kwargs.items()}
    except Exception as error:
        FAILURES.note("backward", error)
        return args, kwargs
    return seen


def _watched(span, value):
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_watched(span, item) for item in value)
    if not is_tensor(value) or not value.requires_grad:
        return value
    view = value.view_as(value)
    if view.grad_fn is None:
        return value
    view.grad_fn.register_prehook(span.input_done)
    span.inputs += 1
    return view


@contained
def _watch_outputs(span, result):
    tensors = []
    collect(result, tensors)
    for tensor in tensors:
        if tensor.grad_fn is not None:
            tensor.grad_fn.register_prehook(span.begin)


def install(session, torch):
    """Stamps every backward pass as the phase `backward`."""
    original = torch.autograd.backward
    spans, phase = session.spans, session.phase("backward")

    @functools.wraps(original)
    def backward(*args, **kwargs):
        if tracing.is_compiling() or not spans.enter(phase):
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            spans.leave(phase)

    session.patches.set(torch.autograd, "backward", backward)
