"""What fences cost in the CUDA graph of an 8B-shaped decoder: one GPU, random weights, graphs replayed in turn.

    python3 bench/native/decode_overhead.py [--out FILE] [--batches 1,32] [--rounds 200]

Needs PyTorch and a GPU, and `make -C native`. Checks that outputs are bit-identical and every replay writes exactly its
records, then prints one JSON line a figure. A run counts only when its unfenced graphs differ by less than 0.1 %.
"""

import argparse
import ctypes
import datetime
import json
import pathlib
import statistics
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD = 36, 4096, 12288, 32, 8, 128
CONTEXT = 1024
SIDE, IN_LINE = 0, 1
CAPACITY = 1 << 14
# Offsets in the segment, from native/include/picket_ring.h.
GRAPH_NODES, GRAPH_RECORDS, FENCE_RING = 536, 544, 4096
# name: (form, which modules)
MODES = {
    "none": None,
    "side": (SIDE, "modules"),
    "in_line": (IN_LINE, "modules"),
    "side_layers": (SIDE, "layers"),
    "in_line_layers": (IN_LINE, "layers"),
    "none_again": None,
}


class Options(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("directory", ctypes.c_char_p),
        ("attributes", ctypes.c_char_p),
        ("fence_capacity", ctypes.c_uint32),
        ("host_capacity", ctypes.c_uint32),
        ("phase_capacity", ctypes.c_uint32),
        ("clock_period_ms", ctypes.c_uint32),
        ("form", ctypes.c_int32),
    ]


class Phase(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int32),
        ("layer", ctypes.c_int32),
        ("op", ctypes.c_char_p),
        ("group", ctypes.c_char_p),
        ("bytes", ctypes.c_int64),
    ]


class Fences:
    """The library, switched per captured graph."""

    def __init__(self, directory):
        self.lib = ctypes.CDLL(str(ROOT / "native/build/libpicket_fence.so"))
        self.lib.picket_error.restype = ctypes.c_char_p
        self.lib.picket_control_of.restype = ctypes.c_void_p
        options = Options(ctypes.sizeof(Options), torch.cuda.current_device(), directory.encode(), b"{}", CAPACITY)
        self.handle = ctypes.c_void_p()
        self.check(self.lib.picket_open(ctypes.byref(options), ctypes.byref(self.handle)))
        self.wanted = None
        self.borders = 0

    def check(self, code):
        if code != 0:
            sys.exit(f"{code}: {self.lib.picket_error().decode()}")

    def register(self, name, layer):
        number = ctypes.c_uint32()
        self.check(
            self.lib.picket_phase_register(
                self.handle, ctypes.byref(Phase(name.encode(), 0, layer, None, None, -1)), ctypes.byref(number)
            )
        )
        return number.value

    def word(self, offset):
        return ctypes.c_uint64.from_address(self.lib.picket_control_of(self.handle) + offset).value

    def written(self):
        ring = (ctypes.c_uint64 * (2 * CAPACITY)).from_address(self.lib.picket_control_of(self.handle) + FENCE_RING)
        return max(word >> 32 for word in ring[1::2])

    def form(self, mode):
        self.wanted = None if mode is None else mode[1]
        if mode is not None:
            self.check(self.lib.picket_form(self.handle, mode[0]))

    def hook(self, module, name, layer, level):
        number = self.register(name, layer)

        def border(call):
            if self.wanted == "modules" or self.wanted == level:
                self.borders += 1
                self.check(call(self.handle, number, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

        module.register_forward_pre_hook(lambda *_: border(self.lib.picket_begin))
        module.register_forward_hook(lambda *_: border(self.lib.picket_end))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x, keys, values):
        batch = x.shape[0]
        q, k, v = self.qkv(x).split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], -1)
        keys[:, :, 0] = k.view(batch, KV_HEADS, HEAD)
        values[:, :, 0] = v.view(batch, KV_HEADS, HEAD)
        y = F.scaled_dot_product_attention(q.view(batch, KV_HEADS, HEADS // KV_HEADS, HEAD), keys, values)
        return self.out(y.reshape(batch, -1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(HIDDEN, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x, keys, values):
        x = x + self.attention(self.norm1(x), keys, values)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])

    def forward(self, x, cache):
        for layer, (keys, values) in zip(self.layers, cache):
            x = layer(x, keys, values)
        return x


def capture(model, fences, batch):
    """{mode: (graph, borders, nodes, records)} over one input, and the tensors they read and write.

    All graphs use the same memory: where activations lie changes a step by half a percent.
    """
    shape = (batch, KV_HEADS, CONTEXT, HEAD)
    cache = [tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in "kv") for _ in range(LAYERS)]
    x = torch.randn(batch, HIDDEN, device="cuda", dtype=torch.bfloat16)
    output, pool = torch.empty_like(x), torch.cuda.graph_pool_handle()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x, cache)
    torch.cuda.current_stream().wait_stream(side)
    graphs = {}
    for name, mode in [("first", None), *MODES.items()]:  # the first one also allocates what the rest find there
        fences.form(mode)
        fences.borders, nodes, records = 0, fences.word(GRAPH_NODES), fences.word(GRAPH_RECORDS)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            output.copy_(model(x, cache))
        graphs[name] = (graph, fences.borders, fences.word(GRAPH_NODES) - nodes, fences.word(GRAPH_RECORDS) - records)
        fences.form(None)
    return graphs, (output, x, cache)


def check_outputs(graphs, output):
    """Outputs are bit-identical with and without fences."""
    expected = None
    for name, (graph, *_) in graphs.items():
        output.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expected = output.clone() if expected is None else expected
        if not torch.equal(output, expected):
            sys.exit(f"{name}: the output differs from the unfenced graph's")


def check_counts(fences, graphs, replays=50):
    """Every replay writes exactly its records, by the sequence numbers in the ring."""
    for name, (graph, _, _, records) in graphs.items():
        torch.cuda.synchronize()
        start = fences.written()
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
        if fences.written() - start != replays * records:
            sys.exit(f"{name}: {fences.written() - start} records of {replays} replays of {records}")


def measure(graphs, rounds):
    """Milliseconds a replay by events, in turn; and in trains of 40, as a busy server launches them."""
    single, train = {name: [] for name in graphs}, {name: [] for name in graphs}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def timed(graph, times):
        start.record()
        for _ in range(times):
            graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / times

    for turn in range(rounds + 20):
        for name, (graph, *_) in graphs.items():
            value = timed(graph, 1)
            if turn >= 20:
                single[name].append(value)
    for _ in range(max(5, rounds // 20)):
        for name, (graph, *_) in graphs.items():
            train[name].append(timed(graph, 40))
    return single, train


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    arguments.add_argument("--batches", default="1,32")
    arguments.add_argument("--rounds", type=int, default=200)
    given = arguments.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Decoder().eval()
    lines = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        fences = Fences(directory)
        for index, layer in enumerate(model.layers):
            fences.hook(layer, "layer", index, "layers")
            fences.hook(layer.attention, "attention", index, "modules")
            fences.hook(layer.mlp, "mlp", index, "modules")
        for batch in map(int, given.batches.split(",")):
            graphs, tensors = capture(model, fences, batch)
            check_outputs(graphs, tensors[0])
            check_counts(fences, graphs)
            single, train = measure(graphs, given.rounds)
            for name, (_, borders, nodes, records) in graphs.items():
                assert records == borders
                one, many = statistics.median(single[name]), statistics.median(train[name])
                line = {
                    "bench": "native/decode_overhead",
                    "date": datetime.date.today().isoformat(),
                    "command": f"python3 bench/native/decode_overhead.py --rounds {given.rounds}",
                    "device": torch.cuda.get_device_name(),
                    "torch": torch.__version__,
                    "batch": batch,
                    "mode": name,
                    "borders": borders,
                    "nodes": nodes,
                    "step_ms": round(one, 4),
                    "overhead_percent": round(100 * (one / statistics.median(single["none"]) - 1), 3),
                    "train_step_ms": round(many, 4),
                    "train_overhead_percent": round(100 * (many / statistics.median(train["none"]) - 1), 3),
                }
                lines.append(json.dumps(line))
                print(lines[-1], flush=True)
            del graphs, tensors
    if given.out:
        pathlib.Path(given.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
