"""Borders inside code that torch.compile compiles.

A border is a custom op that hands a tensor on: `border(x)` is x.clone() followed by `mark(y)`, which is declared to
write y. What made x therefore runs before the stamp and what reads y after it, in the forward and in the backward
pass, and the op cannot be dropped while y is needed. Inductor removes the copy, and mark's "write" happens in place,
wherever x is not an input of the compiled region. The end of a phase also reads what its beginning gave, so that both
are kept or dropped together.

Compiled artifacts outlive the process. So a border is named by a number made of its phase's description, never by an
address or an order of registration; and the name of an op is made of its schema, since the caches of PyTorch do not
look at schemas (pytorch#187319) and would go on using an artifact that was made for another one.
"""

import sys
import zlib

from . import structures
from .failures import FAILURES

NAMESPACE = "picket"
MARK_SCHEMA = "(Tensor(a!) x, Tensor[] after, int border) -> ()"
BORDER_SCHEMA = "(Tensor x, Tensor[] after, int forward, int backward) -> Tensor"
NO_BORDER = 0


def _never():
    return False


# torch.compiler.is_compiling once torch is there; Dynamo takes its answer for a constant.
is_compiling = _never

_stamps = {}  # border -> (phase, whether it ends there)
_recorder = None
_libraries = []
_mark = _border = _torch = None


def op_name(name, schema):
    """`name` with a digest of its schema."""
    return f"{name}_{zlib.crc32(schema.encode()):08x}"


def number_of(phase, ends):
    """The border at which `phase` begins or ends: the same in every process, 1 to 2^31 - 1."""
    described = f"{phase.name}|{phase.kind}|{phase.op}|{phase.group}|{phase.bytes}|{'end' if ends else 'begin'}"
    border = zlib.crc32(described.encode()) & 0x7FFFFFFF or 1
    _stamps[border] = (phase, ends)
    return border


class Borders:
    """Numbers of the borders of one probe: forward begin and end, backward begin and end (NO_BORDER: not stamped).

    `hands_on`: the probed code gets its input through the beginning, so that none of it can run before. Whoever may
    write into its input for the caller to see must get the input itself; then only what made the input is tied.
    """

    __slots__ = ("backward_begin", "backward_end", "begin", "end", "hands_on")

    def __init__(self, phase, backward=None, hands_on=False):
        self.begin, self.end = number_of(phase, False), number_of(phase, True)
        self.backward_begin = number_of(backward, False) if backward else NO_BORDER
        self.backward_end = number_of(backward, True) if backward else NO_BORDER
        self.hands_on = hands_on


def use(recorder):
    """From now on borders are stamped by `recorder`. Defines the ops at the first call; torch must be imported."""
    global is_compiling, _recorder, _torch
    _recorder = recorder
    if _torch is None:
        _torch = sys.modules["torch"]
        structures.use(_torch)
        _define(_torch)
    if hasattr(_torch, "compiler"):
        is_compiling = _torch.compiler.is_compiling


def _define(torch):
    global _mark, _border
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    _libraries.append(library)  # its ops live as long as it does
    # flexible_layout: the ops do not care for strides, so none need be made for them.
    wanted = ("pt2_compliant_tag", "flexible_layout")
    tags = [getattr(torch.Tag, name) for name in wanted if hasattr(torch.Tag, name)]
    mark, border = op_name("mark", MARK_SCHEMA), op_name("border", BORDER_SCHEMA)
    library.define(mark + MARK_SCHEMA, tags=tags)
    library.impl(mark, _stamp, "CompositeExplicitAutograd")
    library.impl(mark, _do_nothing, "Meta")
    library.impl(mark, torch.library.fallthrough_kernel, "Autograd")
    library.define(border + BORDER_SCHEMA, tags=tags)
    library.impl(border, _border_with_gradient(torch), "CompositeImplicitAutograd")
    if hasattr(torch.library, "register_vmap"):
        torch.library.register_vmap(f"{NAMESPACE}::{border}", _border_of_batch, lib=library)
    ops = getattr(torch.ops, NAMESPACE)
    _mark, _border = getattr(ops, mark), getattr(ops, border)


def _stamp(_x, _after, border):
    if border not in _stamps:
        FAILURES.note("compiled code", f"border {border} is of a probe that this process does not have")
        return
    phase, ends = _stamps[border]
    if ends:
        _recorder.end(phase)
    else:
        _recorder.begin(phase)


def _do_nothing(*_arguments):
    """What the op does to the metadata of tensors."""


def _handed_on(x, after, border):
    y = x.clone()
    _mark(y, after, border)
    return y


def _border_of_batch(_info, dimensions, x, after, forward, backward):
    return _border(x, after, forward, backward), dimensions[0]  # one stamp for the whole batch


def _border_with_gradient(torch):
    class Border(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, after, forward, backward):
            ctx.border = backward
            return _handed_on(x, after, forward)

        @staticmethod
        def backward(ctx, gradient):
            return _handed_on(gradient, [], ctx.border), None, None, None

    def border(x, after, forward, backward):
        if backward and x.requires_grad and torch.is_grad_enabled():
            return Border.apply(x, after, forward, backward)
        return _handed_on(x, after, forward)

    return border


def through(borders, original, args, kwargs):
    """`original(*args, **kwargs)` between the borders. Written for Dynamo to trace."""
    place = structures.first_tensor(args, kwargs)
    if place is None:
        return original(*args, **kwargs)
    entered = enter(borders, args[place] if isinstance(place, int) else kwargs[place])
    if borders.hands_on and isinstance(place, int):
        args = (*args[:place], entered, *args[place + 1 :])
    elif borders.hands_on:
        kwargs = {**kwargs, place: entered}
    return leave(borders, entered, original(*args, **kwargs))


def enter(borders, x):
    """The beginning, after what made `x`; its result is `x` handed on, or an empty tensor, for leave()."""
    if not borders.hands_on:
        return _border(x.new_empty(0), [x], borders.begin, NO_BORDER)
    # Without a gradient there is no end of the backward pass, so it is not begun either.
    return _border(x, [], borders.begin, borders.backward_end if x.requires_grad else NO_BORDER)


def leave(borders, entered, result):
    """`result`, a tensor or a structure of them, behind the end."""
    tensors = []
    structures.collect(result, tensors)
    after = [entered, *tensors[1:]]
    backward = borders.backward_begin if entered.requires_grad else NO_BORDER
    return structures.replace_first(result, lambda tensor: _border(tensor, after, borders.end, backward))[1]
