"""Names of communicators: the same on every rank, different for every communicator, and telling their ranks.

    <label>:<ranks>   dp3:0-6/2   world:0-7   tp12:5,9,17   pp4:3>7

The label is the group's description and its number in the job. Ranks are first-last, first-last/stride, a list, or `#`
and a digest where a list is too long; `a>b` is the channel from rank a to rank b.
"""

import itertools
import re
import zlib

MAX_BYTES = 39
_NO_DESCRIPTION = ("", "undefined", "default_pg")


def ranks_text(ranks, limit):
    """Ranks of a group in at most `limit` characters."""
    strides = {after - before for before, after in itertools.pairwise(ranks)}
    if strides == {1} or (len(ranks) > 2 and len(strides) == 1):
        stride = strides.pop()
        text = f"{ranks[0]}-{ranks[-1]}" + (f"/{stride}" if stride != 1 else "")
    else:
        text = ",".join(map(str, ranks))
    return text if len(text) <= limit else f"#{zlib.crc32(text.encode()):08x}"


class Groups:
    """Names of torch.distributed's process groups. Not for groups that the calling rank is no member of."""

    def __init__(self, distributed):
        self._distributed = distributed
        self._labels = {}
        self._names = {}

    def name(self, group):
        """Name of the process group; None stands for the default one."""
        group = group or self._distributed.group.WORLD
        if group not in self._names:
            label = self._label(group)
            ranks = sorted(self._distributed.get_process_group_ranks(group))
            self._names[group] = f"{label}:{ranks_text(ranks, MAX_BYTES - len(label) - 1)}"
        return self._names[group]

    def channel(self, group, op, peer):
        """Name of the channel on which this rank does `op`, send or recv, with a global rank; None: with any."""
        group = group or self._distributed.group.WORLD
        mine, other = self._distributed.get_rank(), "any" if peer is None else peer
        return f"{self._label(group)}:{mine}>{other}" if op == "send" else f"{self._label(group)}:{other}>{mine}"

    def is_foreign(self, group):
        """Is the calling rank no member?"""
        return group is not None and group is self._distributed.GroupMember.NON_GROUP_MEMBER

    def _label(self, group):
        if group not in self._labels:
            self._labels[group] = self._made_label(group)
        return self._labels[group]

    def _made_label(self, group):
        if group is self._distributed.group.WORLD:
            return "world"
        described = getattr(group, "group_desc", "")
        number = getattr(group, "group_name", "")
        if not re.fullmatch(r"\d{1,6}", number):
            number = f"~{zlib.crc32(number.encode()):08x}"
        label = "pg" if described in _NO_DESCRIPTION else re.sub(r"[^a-z0-9_]+", "_", described.lower())
        return label.removesuffix("_group")[: 20 - len(number)] + number
