"""Ways to stamp phase borders, behind one interface: begin(name), end(name) on the current stream."""

import ctypes
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "native/hook"))

from picket_hook import layout_generated as layout
from picket_hook.library import FORMS, NO_BUDGET, Library, Options
from picket_hook.phases import KINDS, Phase

CAPACITY = 1 << 17
# Of the control block, from native/include/picket_ring.h.
GRAPH_NODES, GRAPH_RECORDS, FENCE_SIDE_NS, PREDICTED, PLAN_KEPT = 536, 544, 584, 580, 608


def stream():
    return torch.cuda.current_stream().cuda_stream


class Picket:
    """The fence library. `budget`: share of a pass, None for the default, NO_BUDGET for every border."""

    def __init__(self, directory, budget=None, form="auto", attributes=b"{}"):
        self.library = Library(ROOT / "native/build/libpicket_fence.so")
        options = Options(directory=str(directory).encode(), fence_capacity=CAPACITY, form=FORMS[form])
        options.device, options.attributes = torch.cuda.current_device(), attributes
        options.overhead_budget = budget or 0
        self.handle = self.library.opened(options)
        self.phases = {}

    def number(self, name):
        if name not in self.phases:
            kind = "comm" if name == "all_reduce" else "step" if name == "step" else "compute"
            phase = Phase(name, kind, "all_reduce" if kind == "comm" else None, "tp" if kind == "comm" else None)
            self.phases[name] = self.library.registered(self.handle, phase, KINDS[kind])
        return self.phases[name]

    def begin(self, name):
        self.check(self.library.begin(self.handle, self.number(name), stream()))

    def end(self, name):
        self.check(self.library.end(self.handle, self.number(name), stream()))

    def step(self, number, batch):
        payload = self.library.step_unknown()
        payload.step, payload.batch, payload.decode_tokens, payload.graph = number, batch, batch, batch
        payload.requests = 0
        self.check(self.library.step(self.handle, ctypes.byref(payload), None, stream()))

    def check(self, code):
        if code != 0:
            sys.exit(f"{code}: {self.library.message()}")

    def word(self, offset, kind=ctypes.c_uint64):
        return kind.from_address(self.library.control_of(self.handle) + offset).value

    def costs_ns(self):
        return [round(self.word(FENCE_SIDE_NS + 4 * i, ctypes.c_float), 1) for i in range(3)]

    def nodes(self):
        return self.word(GRAPH_NODES)

    def records(self):
        """Records in the ring: (number, time, type, name), oldest first, of at most one lap."""
        base = self.library.control_of(self.handle)
        ring = (ctypes.c_uint64 * (2 * CAPACITY)).from_address(base + layout.CONTROL_SIZE)
        names = {number: name for name, number in self.phases.items()}
        for stamp, identity in sorted(zip(ring[::2], ring[1::2]), key=lambda record: record[1] >> 32):
            if identity:
                yield identity >> 32, stamp & (1 << 62) - 1, identity >> 30 & 3, names.get(identity & 0xFFFF)

    def written(self):
        return max((number for number, *_ in self.records()), default=0)

    def plan(self):
        return self.library.plan(self.handle)

    def path(self):
        return self.library.path(self.handle).decode()

    def close(self):
        self.library.close(self.handle)


class Only:
    """Hands on the borders of some phases."""

    def __init__(self, recorder, names):
        self.recorder, self.names, self.nodes = recorder, names, recorder.nodes

    def begin(self, name):
        if name in self.names:
            self.recorder.begin(name)

    def end(self, name):
        if name in self.names:
            self.recorder.end(name)


class InLine:
    """As LMTracer does it; see inline_fence.cu."""

    def __init__(self):
        source = pathlib.Path(__file__).with_name("inline_fence.cu")
        library = ROOT / "native/build/libinline_fence.so"
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", str(source), "-o", str(library)]
            subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))
        self.library.inline_stamp.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        if self.library.inline_open() != 0:
            sys.exit("inline_fence.cu: no memory")
        self.count = 0

    def begin(self, name):
        self.count += 1
        if self.library.inline_stamp(hash(name) & 0xFFFFFFFF, stream()) != 0:
            sys.exit("inline_fence.cu: launch failed")

    end = begin

    def nodes(self):
        return self.count


class Events:
    """A CUDA event a border."""

    def __init__(self, in_graph=True):
        self.in_graph, self.events, self.count = in_graph, [], 0

    def begin(self, _name):
        # In a graph each border needs an event of its own; launched ones are used in turn.
        if self.in_graph or len(self.events) < 4096:
            self.events.append(torch.cuda.Event(enable_timing=True, external=self.in_graph))
        self.events[-1 if self.in_graph else self.count % len(self.events)].record()
        self.count += 1

    end = begin

    def nodes(self):
        return self.count


class Switch:
    """Hands borders of modules to the recorder in use, if any."""

    def __init__(self):
        self.now = None

    def begin(self, name):
        if self.now is not None:
            self.now.begin(name)

    def end(self, name):
        if self.now is not None:
            self.now.end(name)

    def watch(self, module, name):
        module.register_forward_pre_hook(lambda *_: self.begin(name))
        module.register_forward_hook(lambda *_: self.end(name))
