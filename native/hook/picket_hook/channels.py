"""Point-to-point calls: send and recv, single or in a batch."""

import functools

from . import tracing
from .calls import Arguments, size_of
from .failures import contained

CHANNELS = {"send": "send", "isend": "send", "recv": "recv", "irecv": "recv"}


def install(session, calls, distributed):
    """Stamps the calls of torch.distributed."""
    for name, op in CHANNELS.items():
        session.patches.set_everywhere(distributed, name, _channel(calls, getattr(distributed, name), op, distributed))
    session.patches.set_everywhere(distributed, "batch_isend_irecv", _batch(calls, distributed.batch_isend_irecv))
    _accept_copies(session, distributed.distributed_c10d)


def _channel(calls, original, op, distributed):
    arguments = Arguments(original)
    asynchronous = original.__name__ in ("isend", "irecv")

    @contained
    def described(args, kwargs):
        size, group = size_of((*args, *kwargs.values())), arguments.get("group", args, kwargs)
        if calls.within(op, size) or calls.groups.is_foreign(group):
            return None
        peer = "dst" if op == "send" else "src"
        other, place = arguments.get(peer, args, kwargs), arguments.get(f"group_{peer}", args, kwargs)
        if other is None and place is not None:
            other = distributed.get_global_rank(group or distributed.group.WORLD, place)
        return calls.issued(op, calls.groups.channel(group, op, other), size, asynchronous)

    @functools.wraps(original)
    def channel(*args, **kwargs):
        call = None if tracing.is_compiling() else described(args, kwargs)
        if call is None:
            return original(*args, **kwargs)
        return calls.stamped(call, original, args, kwargs)

    return channel


def _batch(calls, original):
    """One call for each entry of the list. Where the backend gives fewer works, the wait is for what is received."""

    @functools.wraps(original)
    def batch_isend_irecv(p2p_op_list):
        if tracing.is_compiling() or calls.within():
            return original(p2p_op_list)
        with calls.collecting():
            works = original(p2p_op_list)
        _follow(calls, p2p_op_list, works)
        return works

    return batch_isend_irecv


@contained
def _follow(calls, entries, works):
    issued = [_issued(calls, entry) for entry in entries]
    if len(works) != len(issued):
        issued = [next((call for call in issued if call.op == "recv"), issued[0])]
    for work, call in zip(works, issued):
        calls.follow(work, call)


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
