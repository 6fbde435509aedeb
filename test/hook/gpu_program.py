"""Scenarios on a GPU, for test_gpu.py: `python gpu_program.py SCENARIO DIRECTORY` prints a dictionary."""

import sys
from pathlib import Path

import picket_hook
import torch
from torch import nn

import models

REPLAYS = 3


def tokens():
    return torch.arange(8, device="cuda").reshape(1, 8)


def built():
    torch.manual_seed(0)
    return models.Decoder().cuda().eval()


@torch.no_grad()
def graph(install):
    """A captured forward pass, replayed."""
    model = built()
    expected = model(tokens())
    install()
    picket_hook.attach(model)
    x = tokens()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = model(x)
    for _ in range(REPLAYS):
        captured.replay()
    torch.cuda.synchronize()
    return {"equal": torch.equal(result, expected)}


@torch.no_grad()
def reduce_overhead(install):
    """torch.compile with CUDA graphs: none is given up for the borders' sake."""
    from torch._dynamo.utils import counters

    install()
    compiled = torch.compile(built(), mode="reduce-overhead", fullgraph=True)
    for _ in range(3):
        compiled(tokens())
    torch.cuda.synchronize()
    before = records()
    for _ in range(REPLAYS):
        compiled(tokens())
    torch.cuda.synchronize()
    return {"skips": counters["inductor"]["cudagraph_skips"], "records": records() - before}


def records():
    import segment

    return len(segment.read(picket_hook.status()["segment"]).fences)


def data_parallel(install):
    """One rank on NCCL: asynchronous calls, DistributedDataParallel, a training step."""
    import torch.distributed as dist

    install()
    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
    model = nn.parallel.DistributedDataParallel(picket_hook.attach(nn.Linear(256, 256).cuda()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(8, 256, device="cuda")
    for _ in range(3):
        model(x).sum().backward()
        optimizer.step()
    dist.all_reduce(x)
    dist.all_reduce(x, async_op=True).wait()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return {}


def spin(install):
    """A phase of known length, also by CUDA events."""
    install()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with picket_hook.phase("norm"):
        torch.cuda._sleep(1000)
    torch.cuda.synchronize()
    with picket_hook.phase("mlp"):
        begin.record()
        torch.cuda._sleep(20_000_000)
        end.record()
    torch.cuda.synchronize()
    return {"ms": begin.elapsed_time(end)}


def main():
    scenario, directory = sys.argv[1], Path(sys.argv[2])
    config = directory / "picket.toml"
    config.write_text(f'{models.PROBES}\n[fence]\ndirectory = "{directory}"\noverhead_budget = 0\n')
    torch.zeros(1, device="cuda")  # the hook waits for CUDA to be in use
    result = globals()[scenario](lambda: picket_hook.install(config))
    print(repr(result | picket_hook.status()))


if __name__ == "__main__":
    main()
