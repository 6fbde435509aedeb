"""Collectives and point-to-point calls of torch.distributed as phases, with bytes, group and number within it.

A call that blocks the stream lasts from its begin to its end. Of an asynchronous one what the stream waits for is
stamped: around `wait()` of its work. The end of the transfer itself could only be had by waiting on another stream,
which would let the allocator give away memory that the transfer still uses.
"""

import functools
import inspect

from . import ddp, functional, tracing
from .calls import Calls
from .failures import FAILURES, contained

# Function -> op. Where the name of the phase is not in Picket's vocabulary, it passes through as it is.
COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "_all_gather_base": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
}
CHANNELS = {"send": "send", "isend": "send", "recv": "recv", "irecv": "recv"}


def install(session, torch):
    """Stamps torch.distributed, its functional twin and the reductions of DistributedDataParallel."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    calls = Calls(session, distributed)
    for name, op in COLLECTIVES.items():
        _replace(session, distributed, name, _collective(calls, getattr(distributed, name, None), op))
    for name, op in CHANNELS.items():
        _replace(session, distributed, name, _channel(calls, getattr(distributed, name, None), op, distributed))
    _replace(session, distributed, "batch_isend_irecv", _batch(calls, distributed.batch_isend_irecv))
    _accept_copies(session, distributed.distributed_c10d)
    _follow_waits(session, calls, distributed.distributed_c10d.Work)
    _coalesced(session, calls, distributed.distributed_c10d)
    contained(functional.install)(session, calls)
    if session.config.features.ddp:
        ddp.install(session, calls, torch)


def _replace(session, distributed, name, wrapper):
    if wrapper is None:
        return
    session.patches.set_everywhere(distributed, name, wrapper)


def size_of(values):
    """Bytes of the largest of the given tensors and lists of tensors."""
    largest = 0
    for value in values:
        items = value if isinstance(value, (list, tuple)) else (value,)
        largest = max(largest, sum(item.numel() * item.element_size() for item in items if tracing.is_tensor(item)))
    return largest


class _Arguments:
    """Finds arguments by name without binding the whole signature at each call."""

    def __init__(self, function):
        self._places = {name: place for place, name in enumerate(inspect.signature(function).parameters)}

    def get(self, name, args, kwargs, default=None):
        place = self._places.get(name, len(args))
        return args[place] if place < len(args) else kwargs.get(name, default)


def _collective(calls, original, op):
    if original is None:
        return None
    arguments = _Arguments(original)

    @functools.wraps(original)
    def collective(*args, **kwargs):
        if tracing.is_compiling():
            return original(*args, **kwargs)
        try:
            size, group = size_of((*args, *kwargs.values())), arguments.get("group", args, kwargs)
            if calls.within(op, size) or calls.groups.is_foreign(group):
                return original(*args, **kwargs)
            call = calls.issued(op, calls.groups.name(group), size)
            asynchronous = bool(arguments.get("async_op", args, kwargs))
        except Exception as error:
            FAILURES.note(op, error)
            return original(*args, **kwargs)
        return calls.stamped(call, original, args, kwargs, asynchronous)

    return collective


def _channel(calls, original, op, distributed):
    if original is None:
        return None
    arguments = _Arguments(original)
    peer, asynchronous = ("dst" if op == "send" else "src"), original.__name__ in ("isend", "irecv")

    @functools.wraps(original)
    def channel(*args, **kwargs):
        if tracing.is_compiling():
            return original(*args, **kwargs)
        try:
            size, group = size_of((*args, *kwargs.values())), arguments.get("group", args, kwargs)
            if calls.within(op, size) or calls.groups.is_foreign(group):
                return original(*args, **kwargs)
            other = arguments.get(peer, args, kwargs)
            local = arguments.get(f"group_{peer}", args, kwargs)
            if other is None and local is not None:
                other = distributed.get_global_rank(group or distributed.group.WORLD, local)
            call = calls.issued(op, calls.groups.channel(group, op, other), size)
        except Exception as error:
            FAILURES.note(op, error)
            return original(*args, **kwargs)
        return calls.stamped(call, original, args, kwargs, asynchronous)

    return channel


def _batch(calls, original):
    """One call of each entry of the list. Where the backend answers with fewer works, the wait is for what is received."""

    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list):
        if tracing.is_compiling() or calls.within():
            return original(p2p_op_list)
        with calls.collecting():
            works = original(p2p_op_list)
        try:
            issued = [_issued(calls, entry) for entry in p2p_op_list]
            if len(works) != len(issued):
                issued = [next((call for call in issued if call.op == "recv"), issued[0])]
            for work, call in zip(works, issued):
                calls.follow(work, call)
        except Exception as error:
            FAILURES.note("batch_isend_irecv", error)
        return works

    return batch_isend_irecv


def _issued(calls, entry):
    op = "send" if entry.op.__name__ == "isend" else "recv"
    return calls.issued(op, calls.groups.channel(entry.group, op, entry.peer), size_of((entry.tensor,)))


def _accept_copies(session, c10d):
    """P2POp knows isend and irecv by identity: copies of the originals, taken before, go on being accepted."""
    check = getattr(c10d, "_check_op", None)
    if check is None:
        return
    by_original = {c10d.isend.__wrapped__: c10d.isend, c10d.irecv.__wrapped__: c10d.irecv}
    session.patches.set(c10d, "_check_op", lambda op: check(by_original.get(op, op)))


def _follow_waits(session, calls, cls):
    original = cls.wait

    @functools.wraps(original)
    def wait(self, *args, **kwargs):
        call = calls.waiting(self)
        if call is None:
            return original(self, *args, **kwargs)
        return calls.stamped(call, original, (self, *args), kwargs, False)

    session.patches.set(cls, "wait", wait)


class _Coalesced:
    """Around c10d's _coalescing_manager: its calls are one, issued when the block ends."""

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
        if exception[0] is not None or not self._collected:
            return leave(*exception)
        op, size = self._collected[0][0], sum(size for _, size in self._collected)
        call = self._calls.issued(op, self._calls.groups.name(self._group), size)
        result = self._calls.stamped(call, leave, exception, {}, self._asynchronous, self._works)
        return result


def _coalesced(session, calls, c10d):
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
    _follow_waits(session, calls, c10d._CoalescingManager)
