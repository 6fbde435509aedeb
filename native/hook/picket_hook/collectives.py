"""Collectives and point-to-point calls of torch.distributed as phases, with bytes, group and number within it.

A call that blocks the stream lasts from its begin to its end. Of an asynchronous one what the stream waits for is
stamped: around `wait()` of its work. The end of the transfer itself could only be had by waiting on another stream,
which would let the allocator give away memory that the transfer still uses.
"""

import functools

from . import channels, coalescing, ddp, functional, tracing
from .calls import Arguments, Calls, follow_waits, size_of
from .failures import contained

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


def install(session, torch):
    """Stamps torch.distributed, its functional twin and the reductions of DistributedDataParallel."""
    distributed = torch.distributed
    if not distributed.is_available():
        return
    calls = Calls(session, distributed)
    for name, op in COLLECTIVES.items():
        if hasattr(distributed, name):
            session.patches.set_everywhere(distributed, name, _collective(calls, getattr(distributed, name), op))
    follow_waits(session, calls, distributed.distributed_c10d.Work)
    channels.install(session, calls, distributed)
    coalescing.install(session, calls, distributed.distributed_c10d)
    functional.install(session, calls)
    if session.config.features.ddp:
        ddp.install(session, calls, torch)


def _collective(calls, original, op):
    arguments = Arguments(original)

    @functools.wraps(original)
    def collective(*args, **kwargs):
        call = None if tracing.is_compiling() else _described(calls, arguments, op, args, kwargs)
        if call is None:
            return original(*args, **kwargs)
        return calls.stamped(call, original, args, kwargs)

    return collective


@contained
def _described(calls, arguments, op, args, kwargs):
    """The Call, or None where it is not to be stamped."""
    size, group = size_of((*args, *kwargs.values())), arguments.get("group", args, kwargs)
    if calls.within(op, size) or calls.groups.is_foreign(group):
        return None
    return calls.issued(op, calls.groups.name(group), size, bool(arguments.get("async_op", args, kwargs)))
