"""What fences beside the stream cost, by how they hang in the graph: decode, every border and one a layer.

    python3 bench/native/branches.py [--out FILE] [--rounds 12] [--batches 1,32] [--copies 4] [--ahead 1,20]
                                     [--forms TEXT] [--reduce nccl|peer]

As overhead.py; each form is a capture whose fence nodes were then changed. One JSON line a form.
"""

import argparse
import ctypes
import tempfile

import compare
import engine
import overhead_tp2
import torch
from recorders import NO_BUDGET, Only, Picket, Switch

LAYERS, REPLAYS = 36, 20
MEMORY_DOMAIN = 10  # of CUlaunchAttributeID

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        raise RuntimeError(f"{name}: {code}")


class Parameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 7),
        ("arguments", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class Edge(ctypes.Structure):
    """CUgraphEdgeData."""

    _fields_ = [(name, ctypes.c_ubyte) for name in ("from_port", "to_port", "type")] + [("zero", ctypes.c_ubyte * 5)]


def waits_of(node):
    """[(node, Edge)] that it depends on."""
    count, name = ctypes.c_size_t(), "cuGraphNodeGetDependencies_v2"
    call(name, ctypes.c_void_p(node), None, None, ctypes.byref(count))
    nodes, edges = (ctypes.c_void_p * count.value)(), (Edge * count.value)()
    if count.value:
        call(name, ctypes.c_void_p(node), nodes, edges, ctypes.byref(count))
    return list(zip(nodes, edges))


class Fences:
    """The fence nodes beside the stream of a captured graph, in the order of their chain."""

    def __init__(self, graph):
        self.graph = ctypes.c_void_p(graph.raw_cuda_graph())
        count = ctypes.c_size_t()
        call("cuGraphGetNodes", self.graph, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        call("cuGraphGetNodes", self.graph, nodes, ctypes.byref(count))
        self.parameters = {node: parameters for node in nodes if (parameters := self.fence(node))}

    def fence(self, node):
        kind, parameters, name = ctypes.c_int(), Parameters(), ctypes.c_char_p()
        call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value != 0:
            return None
        call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(parameters))
        known = (
            parameters.function and cuda.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(parameters.function)) == 0
        )
        return parameters if known and name.value == b"picket_fence" else None

    def link(self, before, after, edge, add=True):
        name = "cuGraphAddDependencies_v2" if add else "cuGraphRemoveDependencies_v2"
        ends = [ctypes.byref(ctypes.c_void_p(node)) for node in (before, after)]
        call(name, self.graph, *ends, ctypes.byref(edge), ctypes.c_size_t(1))

    def change(self, kernels=None, chain=None):
        """Other edges from the model's kernels, and from the fence before; () none."""
        for fence in self.parameters:
            for before, edge in waits_of(fence):
                wanted = chain if before in self.parameters else kernels
                if wanted is not None:
                    self.link(before, fence, edge, add=False)
                if wanted:
                    self.link(before, fence, Edge(*wanted))

    def attribute(self, number, value):
        for fence in self.parameters:
            union = (ctypes.c_int * 16)(value)
            call("cuGraphKernelNodeSetAttribute", ctypes.c_void_p(fence), ctypes.c_int(number), union)

    def add_again(self):
        """The same nodes, but made after all of the model's."""
        before = None
        for fence, parameters in self.parameters.items():
            argument = ctypes.create_string_buffer(ctypes.string_at(parameters.arguments[0], 64), 64)
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
            parameters.arguments = ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p))
            node, waits = ctypes.c_void_p(), waits_of(fence)
            add = "cuGraphAddKernelNode_v2"
            call(add, ctypes.byref(node), self.graph, None, ctypes.c_size_t(0), ctypes.byref(parameters))
            for at, edge in waits:
                if at not in self.parameters:
                    self.link(at, node.value, edge)
                elif before:
                    self.link(before, node.value, edge)
            before = node.value
        for fence in self.parameters:
            call("cuGraphDestroyNode", ctypes.c_void_p(fence))


# Ports and type of an edge.
PLAIN, EARLIEST = (0, 0, 0), (2, 0, 1)
LAYERS_ONLY = ("forward", "layer")
CHANGES = {
    "as they are": None,
    "plain edges from kernels": lambda graph: Fences(graph).change(kernels=PLAIN),
    "plain edges between fences": lambda graph: Fences(graph).change(chain=PLAIN),
    "plain edges": lambda graph: Fences(graph).change(PLAIN, PLAIN),
    "launched once the kernel runs": lambda graph: Fences(graph).change(kernels=EARLIEST),
    "no chain": lambda graph: Fences(graph).change(chain=()),
    "common memory domain": lambda graph: Fences(graph).attribute(MEMORY_DOMAIN, 0),
    "made last": lambda graph: Fences(graph).add_again(),
}


def compared(report, scenario, work, output, switch, directory, given, barrier=lambda: None):
    side, in_line = (Picket(directory, NO_BUDGET, form) for form in ("side", "in_line"))
    recorders, changes = {"none": None}, {}
    for name, change in CHANGES.items():
        recorders |= {f"every border, {name}": side, f"one a layer, {name}": Only(side, LAYERS_ONLY)}
        changes |= {f"every border, {name}": change, f"one a layer, {name}": change}
    recorders |= {"in line": in_line, "in line, one a layer": Only(in_line, LAYERS_ONLY), "none_again": None}
    recorders = {name: recorders[name] for name in recorders if name.startswith("none") or given.forms in name}
    for recorder in (None, side, in_line):
        switch.now = recorder
        work()
        barrier()
    torch.cuda.synchronize()
    graphs = compare.capture(work, recorders, switch, barrier, given.copies, REPLAYS, changes)
    compare.check_outputs(graphs, output)
    runs = {name: graphs[name].replay for name in recorders}
    for ahead in map(int, given.ahead.split(",")):
        barrier()
        measured = compare.overheads(compare.interleaved(runs, given.rounds, REPLAYS, ahead=ahead))
        for name, (ms, percent, error) in measured.items() if report else ():
            report.line(
                scenario=scenario, form=name, ahead=ahead, step_ms=round(ms, 4),
                overhead_us=round(10 * percent * measured["none"][0], 2), overhead_percent=round(percent, 3),
                error=round(error, 3),
            )  # fmt: skip


def one_gpu(given, directory):
    switch = Switch()
    model = engine.build(LAYERS, switch).eval()
    for batch in map(int, given.batches.split(",")):
        work, output = engine.decoding(model, LAYERS, batch)
        report = compare.Report("native/branches", given.out)
        compared(report, f"decode batch {batch}", work, output, switch, directory, given)


def of_two(bench, given, directory):
    for batch in map(int, given.batches.split(",")):
        work, output = bench.work(batch)
        scenario = f"decode tp2 {given.reduce} batch {batch}"
        report = bench.report if bench.rank == 0 else None
        compared(report, scenario, work, output, bench.switch, directory, given, overhead_tp2.barrier)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    arguments.add_argument("--rounds", type=int, default=12)
    arguments.add_argument("--batches", default="1,32")
    arguments.add_argument("--copies", type=int, default=4)
    arguments.add_argument("--ahead", default="1", help="replays that wait on the GPU, one figure or several")
    arguments.add_argument("--forms", default="", help="those with this in their names")
    arguments.add_argument("--reduce", choices=("nccl", "peer"), help="tensor parallel on two GPUs")
    given = arguments.parse_args()
    if given.reduce:
        raise SystemExit(overhead_tp2.on_two(of_two, given, "native/branches"))
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        one_gpu(given, directory)


if __name__ == "__main__":
    main()
