"""One of two engine processes with the hook, for faults.ts: `python engine.py SCENARIO RANK PORT STEPS ONSET DEVICE`.

Scenarios are `train_FAULT` (DistributedDataParallel), `serve_FAULT` (decode, tensor parallel 2, in CUDA graphs) and `spin`
(a kernel that runs for 5 s, alone). DEVICE is cuda (NCCL) or cpu (gloo; small, and no graphs are captured there).
Prints what the hook says of itself as JSON, after a line with the time of a fault that happens once.
"""

import json
import os
import random
import sys
import time

import picket_hook
import torch
import torch.distributed as dist
from torch import nn

WORKLOAD, _, FAULT = sys.argv[1].partition("_")
RANK, PORT, STEPS, ONSET = (int(argument) for argument in sys.argv[2:6])
ON_GPU = sys.argv[6] == "cuda"
DEVICE = torch.device("cuda", RANK) if ON_GPU else torch.device("cpu")
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
WIDTH, LAYERS, TOKENS = (4096, 6, 4096) if ON_GPU else (256, 2, 64)
SERVED_LAYERS = 16 if ON_GPU else 2
BUCKETS = (8, 32)
HOST_SLEEP_S, LOADER_SLEEP_S, PAUSE_S = 0.004, 0.012, 5.0

PROBES = """
[[probes]]
module = "*.Attention"
phase = "attention"

[[probes]]
module = "*.Mlp"
phase = "mlp"
"""


class Mlp(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, inner, bias=False), nn.Linear(inner, WIDTH, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.up(x)))


class Attention(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * inner, bias=False), nn.Linear(inner, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(torch.softmax(q * k, -1) * v)


class Block(nn.Module):
    """A layer, or with a group the half of it that one of two tensor parallel ranks has."""

    def __init__(self, parallel=False):
        super().__init__()
        self.attention, self.mlp = (cls(size // (1 + parallel)) for cls, size in ((Attention, WIDTH), (Mlp, 4 * WIDTH)))
        self.parallel = parallel

    def forward(self, x):
        for part in (self.attention, self.mlp):
            y = part(x)
            if self.parallel:
                dist.all_reduce(y)
            x = x + y
        return x


class Samples(torch.utils.data.Dataset):
    """Batches; the loader of rank 1 may be slow."""

    def __len__(self):
        return STEPS

    def __getitem__(self, step):
        if FAULT == "loader" and RANK == 1 and step >= ONSET:
            time.sleep(LOADER_SLEEP_S)
        return torch.zeros(1)


class Neighbour:
    """Matrix products that do not belong here, on a stream of their own beside each step of rank 1."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.matrix = torch.randn(WIDTH, WIDTH, device=DEVICE, dtype=DTYPE)

    def work(self):
        with torch.cuda.stream(self.stream):
            for _ in range(40 if WORKLOAD == "train" else 6):
                torch.mm(self.matrix, self.matrix)


def before(step, neighbour):
    """What goes wrong before a step is launched."""
    if FAULT == "host" and RANK == 0 and step >= ONSET:
        time.sleep(HOST_SLEEP_S)
    if FAULT == "pause" and RANK == 1 and step == ONSET:
        print(json.dumps({"fault_ns": str(time.time_ns())}), flush=True)
        time.sleep(PAUSE_S)
    if neighbour and step >= ONSET:
        neighbour.work()


def repeats(step):
    """Without a GPU to share, the rank does its work twice."""
    return 2 if FAULT == "compute" and RANK == 1 and not ON_GPU and step >= ONSET else 1


def synchronize():
    if ON_GPU:
        torch.cuda.synchronize()


def train(neighbour):
    net = picket_hook.attach(nn.Sequential(*(Block() for _ in range(LAYERS))).to(DEVICE, DTYPE))
    model = nn.parallel.DistributedDataParallel(net, device_ids=[RANK] if ON_GPU else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(TOKENS, WIDTH, device=DEVICE, dtype=DTYPE)
    for step, _ in enumerate(torch.utils.data.DataLoader(Samples(), batch_size=1)):
        before(step, neighbour)
        picket_hook.step(step, tokens=TOKENS)
        for _ in range(repeats(step) - 1):
            net(x)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        synchronize()  # a training loop that looks at its loss


@torch.no_grad()
def serve(neighbour):
    model = nn.Sequential(*(Block(parallel=True) for _ in range(SERVED_LAYERS))).to(DEVICE, DTYPE)
    inputs = {bucket: torch.randn(bucket, WIDTH, device=DEVICE, dtype=DTYPE) for bucket in BUCKETS}
    runs = {bucket: captured(model, x) if ON_GPU else lambda x=x: model(x) for bucket, x in inputs.items()}
    batches = random.Random(1)
    for step in range(STEPS):
        bucket = batches.choice(BUCKETS)
        eager = FAULT == "eager" and step >= ONSET
        before(step, neighbour)
        picket_hook.step(step, decode_tokens=bucket, batch=bucket, graph=0 if eager else bucket)
        for _ in range(repeats(step) - 1):
            for block in model:
                block.mlp(block.attention(inputs[bucket]))
        model(inputs[bucket]) if eager else runs[bucket]()
        synchronize()  # the next batch depends on the tokens


def captured(model, x):
    for _ in range(2):
        model(x)
    synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        model(x)
    return graph.replay


def spin():
    """One phase of the GPU that does not end for 5 s."""
    torch.ones(1, device=DEVICE)
    picket_hook.step(0)
    synchronize()
    print(json.dumps({"fault_ns": str(time.time_ns())}), flush=True)
    with picket_hook.phase("mlp"):
        if ON_GPU:
            torch.cuda._sleep(int(PAUSE_S * 1.98e9))
        else:
            time.sleep(PAUSE_S)
    synchronize()


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT), RANK=str(RANK))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if ON_GPU:
        torch.cuda.set_device(DEVICE)
    picket_hook.install(os.environ["PICKET_CONFIG"])
    if WORKLOAD == "spin":
        spin()
    else:
        dist.init_process_group("nccl" if ON_GPU else "gloo", world_size=2, device_id=DEVICE if ON_GPU else None)
        neighbour = Neighbour() if FAULT == "compute" and RANK == 1 and ON_GPU else None
        (train if WORKLOAD == "train" else serve)(neighbour)
        dist.barrier()
        dist.destroy_process_group()
    print(json.dumps(picket_hook.status()), flush=True)


if __name__ == "__main__":
    main()
