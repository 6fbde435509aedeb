"""Calls of collectives: their numbers, their phases, and who waits for which."""

import contextlib
import threading
import weakref

from .failures import contained
from .groups import Groups
from .phases import Phase


class Call:
    """One call of a collective: what is known of it when it is issued."""

    __slots__ = ("bytes", "group", "op", "sequence")

    def __init__(self, op, group, size, sequence):
        self.op, self.group, self.bytes, self.sequence = op, group, size, sequence


class Calls:
    """Numbers calls within their group and stamps them."""

    def __init__(self, session, distributed):
        self.recorder = session.recorder
        self.groups = Groups(distributed)
        self._phases = {}
        self._sequences = {}
        self._pending = weakref.WeakKeyDictionary()  # work -> Call
        self._local = threading.local()

    def issued(self, op, group, size):
        """The next call of `group`, a name."""
        sequence = self._sequences[group] = self._sequences.get(group, -1) + 1
        return Call(op, group, size, sequence)

    def begin(self, call, stream=None):
        """Gives the phase to end(), or None where nothing was recorded."""
        if self.recorder.capturing():
            phase = self._phase(call.op, call.group, call.bytes)  # a replay repeats its size, but has no number
            return phase if self.recorder.begin(phase, stream) else None
        phase = self._phase(call.op, call.group, -1)
        return phase if self.recorder.begin_call(phase, call.bytes, call.sequence, stream) else None

    def end(self, phase, stream=None):
        self.recorder.end(phase, stream)

    def within(self, op=None, size=0):
        """Is this thread inside a call already? Then what it calls is part of that one, which may collect it."""
        collected = getattr(self._local, "collected", None)
        if collected is None:
            return False
        if op is not None:
            collected.append((op, size))
        return True

    @contextlib.contextmanager
    def collecting(self):
        """Gives the list that fills with (op, bytes) of calls in the block; none of them is stamped by itself."""
        outer, self._local.collected = getattr(self._local, "collected", None), []
        try:
            yield self._local.collected
        finally:
            self._local.collected = outer

    def stamped(self, call, original, args, kwargs, asynchronous, work=None):
        """`original(*args, **kwargs)` as `call`; if asynchronous, waited for through `work`, else through its result."""
        phase = None if asynchronous else self.begin(call)
        try:
            with self.collecting():
                result = original(*args, **kwargs)
        finally:
            if phase is not None:
                self.end(phase)
        if asynchronous:
            self.follow(work or result, call)
        return result

    @contained
    def follow(self, work, call):
        """`call` is waited for through `work`."""
        if work is not None:
            self._pending[work] = call

    def waiting(self, work):
        """The call that `work` is waited for the first time, or None."""
        return self._pending.pop(work, None)

    def _phase(self, op, group, size):
        key = (op, group, size)
        if key not in self._phases:
            self._phases[key] = Phase(op, "comm", op, group, size)
        return self._phases[key]
