"""The optimizer's step as a phase, and as the border between two steps of training."""

import weakref

from . import tracing
from .failures import contained


def install(session, torch):
    """Stamps `step()` of every torch.optim.Optimizer. After the first optimizer's, an automatic step begins."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    watch = _Watch(session)
    session.on_stop(register_optimizer_step_pre_hook(watch.before).remove)
    session.on_stop(register_optimizer_step_post_hook(watch.after).remove)


class _Watch:
    """A step within a step, as of a subclass that calls super().step(), is one: its first end is taken."""

    def __init__(self, session):
        self._spans, self._steps = session.spans, session.steps
        self._phase = session.phase("optimizer")
        self._first = None

    def before(self, optimizer, *_arguments):
        if not tracing.is_compiling():
            self._begin(optimizer)

    def after(self, optimizer, *_arguments):
        if not tracing.is_compiling():
            self._end(optimizer)

    @contained
    def _begin(self, optimizer):
        if self._first is None:
            self._first = weakref.ref(optimizer)
        self._spans.enter(self._phase)

    @contained
    def _end(self, optimizer):
        if self._spans.leave_if_open(self._phase) and self._first() is optimizer:
            self._steps.begin_automatic()
