"""Calls of collectives: their numbers, their phases, and who waits for which."""

import contextlib
import functools
import inspect
import threading
import weakref

from .failures import contained
from .groups import Groups
from .phases import Phase
from .structures import is_tensor


class Call:
    """One call of a collective: what is known of it when it is issued."""

    __slots__ = ("asynchronous", "bytes", "group", "op", "sequence")

    def __init__(self, op, group, size, sequence, asynchronous):
        self.op, self.group, self.bytes, self.sequence = op, group, size, sequence
        self.asynchronous = asynchronous


class Calls:
    """Numbers calls within their group and stamps them."""

    def __init__(self, session, distributed):
        self.recorder = session.recorder
        self.groups = Groups(distributed)
        self._phases = {}
        self._sequences = {}
        self._pending = weakref.WeakKeyDictionary()  # work -> Call
        self._local = threading.local()

    def issued(self, op, group, size, asynchronous=False):
        """The next call of `group`, a name. `asynchronous`: somebody will wait for what it returns."""
        sequence = self._sequences[group] = self._sequences.get(group, -1) + 1
        return Call(op, group, size, sequence, asynchronous)

    @contained
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

    def stamped(self, call, original, args, kwargs, work=None):
        """`original(*args, **kwargs)` as `call`; if asynchronous, the wait for `work`, else for the result, will be."""
        phase = None if call.asynchronous else self.begin(call)
        try:
            with self.collecting():
                result = original(*args, **kwargs)
        finally:
            if phase is not None:
                self.end(phase)
        if call.asynchronous:
            self.follow(work or result, call)
        return result

    @contained
    def follow(self, work, call):
        """`call` is waited for through `work`."""
        if work is not None:
            call.asynchronous = False  # from here on it is the wait
            self._pending[work] = call

    @contained
    def waiting(self, work):
        """The call that `work` is waited for the first time, or None."""
        return self._pending.pop(work, None)

    def _phase(self, op, group, size):
        key = (op, group, size)
        if key not in self._phases:
            self._phases[key] = Phase(op, "comm", op, group, size)
        return self._phases[key]


def follow_waits(session, calls, cls):
    """Stamps `cls.wait()` where a call is followed through that object."""
    original = cls.wait

    @functools.wraps(original)
    def wait(self, *args, **kwargs):
        call = calls.waiting(self)
        if call is None:
            return original(self, *args, **kwargs)
        return calls.stamped(call, original, (self, *args), kwargs)

    session.patches.set(cls, "wait", wait)


def size_of(values):
    """Bytes of the largest of the given tensors and lists of tensors."""
    largest = 0
    for value in values:
        items = value if isinstance(value, (list, tuple)) else (value,)
        largest = max(largest, sum(item.numel() * item.element_size() for item in items if is_tensor(item)))
    return largest


class Arguments:
    """Finds arguments by name without binding the whole signature at each call."""

    def __init__(self, function):
        self._places = {name: place for place, name in enumerate(inspect.signature(function).parameters)}

    def get(self, name, args, kwargs, default=None):
        place = self._places.get(name, len(args))
        return args[place] if place < len(args) else kwargs.get(name, default)
