"""torch.distributed._functional_collectives, which DTensor and tensor parallelism use in eager code.

Their calls return before they are done. As with other asynchronous calls, the wait is stamped.
"""

import functools
import weakref

from . import tracing
from .failures import FAILURES
from .structures import is_tensor

OPS = {
    "all_reduce": "all_reduce",
    "all_gather_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}


def install(session, calls):
    """Stamps the functional collectives."""
    from torch.distributed import _functional_collectives as module

    pending = {}  # id of a tensor -> its Call, until it is waited for or gone
    for name, op in OPS.items():
        original = getattr(module, name, None)
        if original is not None:
            session.patches.set(module, name, _issuing(calls, original, op, pending))
    session.patches.set(module, "wait_tensor", _waiting(calls, module.wait_tensor, pending))


def _issuing(calls, original, op, pending):
    @functools.wraps(original)
    def collective(*args, **kwargs):
        result = original(*args, **kwargs)
        if not tracing.is_compiling():
            _remember(calls, op, args, kwargs, result, pending)
        return result

    return collective


def _remember(calls, op, args, kwargs, result, pending):
    try:
        group = next((value for value in (*args, *kwargs.values()) if hasattr(value, "group_name")), None)
        tensor = getattr(result, "elem", result)
        size = max(_bytes(tensor), *(_bytes(value) for value in (*args, *kwargs.values()) if is_tensor(value)))
        if group is None or calls.within(op, size) or calls.groups.is_foreign(group):
            return
        pending[id(tensor)] = calls.issued(op, calls.groups.name(group), size)
        weakref.finalize(tensor, pending.pop, id(tensor), None)
    except Exception as error:
        FAILURES.note(f"functional {op}", error)


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _waiting(calls, original, pending):
    @functools.wraps(original)
    def wait_tensor(tensor):
        if tracing.is_compiling() or not pending:
            return original(tensor)
        call = pending.pop(id(tensor), None)
        if call is None:
            return original(tensor)
        return calls.stamped(call, original, (tensor,), {})

    return wait_tensor
