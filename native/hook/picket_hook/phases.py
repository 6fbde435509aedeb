"""Phases and their kinds, as protocol/vocabulary.ts has them."""

KINDS = {"compute": 0, "comm": 1, "memory": 2, "host": 3, "step": 4}
OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "recv")

_KIND_OF = {
    "step": "step",
    "dataload": "host",
    "host_gap": "host",
    "checkpoint": "host",
    "evaluation": "host",
    "h2d": "memory",
    "d2h": "memory",
    **dict.fromkeys(OPS, "comm"),
}

UNREGISTERED = -1


def kind_of(name):
    """Kind of a phase by its name; names outside the vocabulary are compute."""
    return _KIND_OF.get(name, "compute")


class Phase:
    """One entry of the segment's phase table. `id` is UNREGISTERED until the recorder has told the library."""

    __slots__ = ("bytes", "group", "id", "kind", "name", "op")

    def __init__(self, name, kind=None, op=None, group=None, bytes=-1):
        self.name = name
        self.kind = kind or kind_of(name)
        self.op = op
        self.group = group
        self.bytes = bytes
        self.id = UNREGISTERED

    @property
    def on_host(self):
        """Does it time the calling thread rather than work on a stream?"""
        return self.kind == "host"

    def __repr__(self):
        return f"Phase({self.name!r}, {self.kind})"
