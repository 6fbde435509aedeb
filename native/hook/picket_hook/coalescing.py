"""c10d's coalescing manager: the calls inside its block are one call, issued when the block ends."""

import functools

from . import tracing
from .calls import follow_waits
from .failures import contained


class _Coalesced:
    """The manager's block, stamped."""

    def __init__(self, calls, manager, group, asynchronous):
        self._calls, self._manager, self._group, self._asynchronous = calls, manager, group, asynchronous

    def __enter__(self):
        self._collecting = self._calls.collecting()
        self._collected = self._collecting.__enter__()
        self._works = self._manager.__enter__()
        return self._works

    def __exit__(self, *exception):
        self._collecting.__exit__(*exception)
        leave = self._manager.__exit__
        call = self._call() if exception[0] is None and self._collected else None
        if call is None:
            return leave(*exception)
        return self._calls.stamped(call, leave, exception, {}, self._works)

    @contained
    def _call(self):
        op, size = self._collected[0][0], sum(size for _, size in self._collected)
        return self._calls.issued(op, self._calls.groups.name(self._group), size, self._asynchronous)


def install(session, calls, c10d):
    """Stamps blocks of c10d._coalescing_manager, where this release of PyTorch has it."""
    original = getattr(c10d, "_coalescing_manager", None)
    if original is None:
        return

    @functools.wraps(original)
    def manager(group=None, device=None, async_ops=False):
        made = original(group, device, async_ops)
        if tracing.is_compiling() or calls.within() or calls.groups.is_foreign(group):
            return made
        return _Coalesced(calls, made, group, async_ops)

    session.patches.set_everywhere(c10d, "_coalescing_manager", manager)
    follow_waits(session, calls, c10d._CoalescingManager)
