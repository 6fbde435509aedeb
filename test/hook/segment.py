"""Reads a segment for the tests. Offsets are those that native/include/picket_ring.h asserts."""

import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "native/include/picket_ring.h"
AT = {
    (found[1], found[2]): int(found[3])
    for found in re.finditer(r"PICKET_AT\(picket_(\w+), (\w+), (\d+)\)", HEADER.read_text())
}
BEGIN, END, LINK = 0, 1, 2
STEP, REQUEST, HOST_BEGIN, HOST_END, CALL = 1, 2, 3, 4, 5


@dataclass
class Span:
    """One begin with its end. `call`: (bytes, sequence) where the begin was described."""

    name: str
    lane: int
    start: int
    end: int
    op: str = ""
    group: str = ""
    bytes: int = -1
    call: tuple | None = None

    @property
    def ms(self):
        return (self.end - self.start) / 1e6


@dataclass
class Segment:
    """What a segment holds, in the order of writing."""

    phases: list
    fences: list  # (time, type, lane, name or number of the host record)
    hosts: list  # dictionaries
    attributes: str
    spans: list = field(default_factory=list)
    unpaired: list = field(default_factory=list)

    def names(self):
        """Borders as text: "+attention" begins, "-attention" ends."""
        return [("+" if kind == BEGIN else "-") + name for _, kind, _, name in self.fences if kind != LINK]

    def of(self, name):
        return [span for span in self.spans if span.name == name]

    def steps(self):
        return [host for host in self.hosts if host["type"] == STEP]


def read(path):
    """Reads the file at `path`, whose writer may be gone."""
    data = Path(path).read_bytes()

    def control(name, kind="<I"):
        return struct.unpack_from(kind, data, AT["control", name])[0]

    phases = [_phase(data, control("phase_offset", "<Q") + 128 * i) for i in range(control("phase_count"))]
    fences = [
        _fence(data, at, phases) for at in _written(data, control("fence_offset", "<Q"), control("fence_capacity"))
    ]
    hosts = [_host(data, control("host_offset", "<Q") + 128 * i, phases) for i in range(control("host_claimed", "<Q"))]
    attributes = data[AT["control", "attributes"] :][:2048].split(b"\0")[0].decode()
    segment = Segment(phases, fences, hosts, attributes)
    _pair(segment)
    return segment


def _text(data, at, size):
    return data[at : at + size].split(b"\0")[0].decode()


def _written(data, offset, capacity):
    """Where the fence records are; a GPU's count of them is not in the file."""
    for number in range(capacity):
        at = offset + 16 * number
        if struct.unpack_from("<I", data, at + 12)[0] != number + 1:
            return
        yield at
    raise AssertionError("the test wrote more than the ring holds")


def _phase(data, at):
    name, op, group = (
        _text(data, at + AT["phase_entry", key], size) for key, size in (("name", 40), ("op", 24), ("group", 40))
    )
    return {
        "name": name,
        "op": op,
        "group": group,
        "kind": data[at],
        "bytes": struct.unpack_from("<q", data, at + AT["phase_entry", "bytes"])[0],
    }


def _fence(data, at, phases):
    stamp, identity = struct.unpack_from("<QQ", data, at)
    kind, lane, number = identity >> 30 & 3, identity >> 16 & 0xFFF, identity & 0xFFFF
    return stamp & (1 << 62) - 1, kind, lane, number if kind == LINK else phases[number]["name"], number


def _host(data, at, phases):
    payload = at + AT["host_record", "payload"]
    kind, phase = struct.unpack_from("<HH", data, at + AT["host_record", "type"])
    record = {"type": kind, "time": struct.unpack_from("<Q", data, at + AT["host_record", "time_ns"])[0]}
    if kind == STEP:
        keys = ("step", "context_tokens", "cached_tokens", "recomputed_tokens", "tokens", "prefill_tokens")
        keys += ("decode_tokens", "batch", "graph", "microbatch", "running", "waiting", "preempted", "requests")
        record.update(zip(keys, struct.unpack_from("<4q10i", data, payload)))
    elif kind == REQUEST:
        record["text"] = _text(data, payload + AT["request_payload", "text"], 88)
    else:
        record["phase"] = phases[phase]["name"]
        record["call"] = struct.unpack_from("<qq", data, payload)
    return record


def _pair(segment):
    open_, described = {}, {}
    for time, kind, lane, name, number in segment.fences:
        stack = open_.setdefault(lane, [])
        if kind == LINK:
            host = segment.hosts[name]
            described[lane] = host.get("call")
        elif kind == BEGIN:
            stack.append((number, time, described.pop(lane, None)))
        elif stack and stack[-1][0] == number:
            _, start, call = stack.pop()
            phase = segment.phases[number]
            segment.spans.append(Span(name, lane, start, time, phase["op"], phase["group"], phase["bytes"], call))
        else:
            segment.unpaired.append(f"-{name}")
    segment.unpaired += [f"+{segment.phases[number]['name']}" for stack in open_.values() for number, *_ in stack]
    segment.fences = [fence[:4] for fence in segment.fences]
    starts = []
    for host in segment.hosts:
        if host["type"] == HOST_BEGIN:
            starts.append(host)
        elif host["type"] == HOST_END:
            begin = starts.pop()
            segment.spans.append(Span(host["phase"], -1, begin["time"], host["time"]))
