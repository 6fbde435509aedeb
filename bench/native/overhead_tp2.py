"""What fences cost in tensor-parallel decode on two GPUs, and whether they name a slower rank.

    python3 bench/native/overhead_tp2.py [--out FILE] [--rounds 60] [--segments DIRECTORY] [--reduce nccl|peer]

As overhead.py, with the all-reduce by NCCL in the graph or by a one-shot kernel over peer memory, as the custom
all-reduce of engines (PyTorch's symmetric memory). Afterwards both ranks decode with the default budget, first alike,
then with rank 1 repeating part of its work; the segments are copied to --segments, for a collector to read.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import shutil
import statistics
import tempfile

import compare
import engine
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from recorders import NO_BUDGET, Events, InLine, Only, Picket, Switch

LAYERS, RANKS, STEPS, COPIES, REPLAYS = 16, 2, 300, 6, 20
REPEATED = 0.2  # of the largest product: about a tenth of a layer's work (0.35 was measured as 16.5 %)
BFLOAT16, SUM = 9, 0  # of nccl.h


class Nccl:
    """All-reduce in place on the current stream, as engines call NCCL under capture."""

    place = None

    def __init__(self, rank):
        import nvidia.nccl

        self.library = ctypes.CDLL(os.path.join(next(iter(nvidia.nccl.__path__)), "lib", "libnccl.so.2"))

        class UniqueId(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_char * 128)]

        unique, self.communicator = UniqueId(), ctypes.c_void_p()
        if rank == 0:
            self.library.ncclGetUniqueId(ctypes.byref(unique))
        shared = torch.frombuffer(bytearray(bytes(unique)), dtype=torch.uint8).cuda()
        dist.broadcast(shared, 0)
        ctypes.memmove(ctypes.byref(unique), shared.cpu().numpy().tobytes(), 128)
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self.library.ncclCommInitRank.argtypes = [pointer, integer, UniqueId, integer]
        self.library.ncclAllReduce.argtypes = [pointer, pointer, ctypes.c_size_t, integer, integer, pointer, pointer]
        assert self.library.ncclCommInitRank(ctypes.byref(self.communicator), RANKS, unique, rank) == 0

    def __call__(self, x):
        stream = torch.cuda.current_stream().cuda_stream
        at = x.data_ptr()
        assert self.library.ncclAllReduce(at, at, x.numel(), BFLOAT16, SUM, self.communicator, stream) == 0
        return x


class Peer:
    """One kernel that reads the other rank's partial sum where the projection put it."""

    def __init__(self):
        import torch.distributed._symmetric_memory as symmetric

        self.buffers, self.symmetric = {}, symmetric

    def place(self, rows):
        if rows not in self.buffers:
            buffer = self.symmetric.empty(rows, engine.HIDDEN, dtype=torch.bfloat16, device="cuda")
            self.symmetric.rendezvous(buffer, dist.group.WORLD.group_name)
            self.buffers[rows] = buffer
        return self.buffers[rows]

    def __call__(self, x):
        return torch.ops.symm_mem.one_shot_all_reduce(x, "sum", dist.group.WORLD.group_name)


def barrier():
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()


class Bench:
    def __init__(self, rank, given, directory, name):
        self.rank, self.given, self.directory = rank, given, directory
        self.report = compare.Report(name, given.out if rank == 0 else None)
        self.switch = Switch()
        self.all_reduce = Nccl(rank) if given.reduce == "nccl" else Peer()
        self.model = engine.build(LAYERS, self.switch, RANKS, self.reduced, self.all_reduce.place).eval()

    def reduced(self, x):
        self.switch.begin("all_reduce")
        x = self.all_reduce(x)
        self.switch.end("all_reduce")
        return x

    def picket(self, budget=None, form="auto"):
        facts = {"job": f"tp2-{self.given.reduce}", "run": "1", "rank": self.rank, "world_size": RANKS, "tp": self.rank}
        facts["groups"] = {"tp": [0, 1]}
        picket = Picket(self.directory, budget, form, json.dumps(facts).encode())
        picket.number("all_reduce")  # as the hook registers collectives before any capture
        return picket

    def work(self, batch):
        return engine.decoding(self.model, LAYERS, batch, RANKS)

    def warm_up(self, work, recorders):
        for recorder in recorders:
            self.switch.now = recorder
            for _ in range(4):
                work()
            barrier()
        self.switch.now = None

    def overhead(self, batch):
        work, output = self.work(batch)
        pickets = {"picket": self.picket(), "picket_full": self.picket(NO_BUDGET)}
        layers = Only(pickets["picket_full"], ("forward", "layer"))
        self.warm_up(work, [None, *pickets.values()])
        recorders = {"none": None, **pickets, "picket_layers": layers, "in_line": InLine()}
        recorders |= {"events": Events(), "none_again": None}
        graphs = compare.capture(work, recorders, self.switch, barrier, COPIES, REPLAYS)
        compare.check_outputs(graphs, output)
        compare.check_counts(graphs, pickets)
        runs = {name: graphs[name].replay for name in recorders}
        barrier()
        results = compare.interleaved(runs, self.given.rounds, REPLAYS)
        barrier()
        profiler = compare.profiled(runs["none"], 4, 60, barrier)
        self.tell(f"decode tp2 {self.given.reduce} batch {batch}", results, profiler, pickets, graphs)

    def tell(self, scenario, results, profiler, pickets, graphs):
        if self.rank != 0:
            return
        measured = compare.overheads(results)
        counts = abs(measured["none_again"][1]) < 0.1
        for name, (ms, percent, error) in measured.items():
            facts = {"plan": pickets[name].plan(), "costs_ns": pickets[name].costs_ns()} if name in pickets else {}
            facts |= {"step_ms": round(ms, 4), "overhead_percent": round(percent, 3), "error": round(error, 3)}
            self.report.line(scenario=scenario, mode=name, nodes=graphs[name].nodes, counts=counts, **facts)
        self.report.line(scenario=scenario, mode="profiler", overhead_percent=round(profiler, 3), counts=counts)

    def slower_rank(self, batch=1):
        """Steps alike on both ranks, then with rank 1 repeating a tenth of its work."""
        work, _ = self.work(batch)
        picket = self.picket()
        self.warm_up(work, [picket])
        graphs = []
        for share in (0.0, REPEATED if self.rank == 1 else 0.0):
            for module in self.model.modules():
                if isinstance(module, engine.Mlp):
                    module.up.repeated = share
            graphs.append(compare.capture(work, {"graph": picket}, self.switch, barrier)["graph"])
        spans = []
        for index, graph in enumerate(graphs):
            seen = len(compare.durations(picket, "forward"))
            for step in range(index * STEPS, (index + 1) * STEPS):
                picket.step(step, batch)
                graph.replay()
                torch.cuda.synchronize()
            spans.append(statistics.median(compare.durations(picket, "forward")[seen:]))
        barrier()
        plan = picket.plan()
        if self.given.segments:
            target = pathlib.Path(self.given.segments)
            target.mkdir(parents=True, exist_ok=True)
            picket.close()
            shutil.copy(picket.path(), target)
        self.report.line(
            scenario=f"slower rank {self.given.reduce}", rank=self.rank, plan=plan,
            step_ms_before=round(spans[0], 4), step_ms_after=round(spans[1], 4),
        )  # fmt: skip


def compared(bench, given, _directory):
    for batch in map(int, given.batches.split(",")):
        bench.overhead(batch)
    bench.slower_rank()


def run(rank, port, work, given, directory, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCH_NCCL_ENABLE_MONITORING="0")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS, device_id=torch.device(f"cuda:{rank}"))
    torch.manual_seed(1)
    with torch.no_grad():
        work(Bench(rank, given, directory, name), given, directory)
    barrier()
    os._exit(0)  # communicators whose calls are in graphs do not like to be taken down


def on_two(work, given, name):
    """Runs work(bench, given, directory) in two processes, a GPU each. The worse exit status."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        context = processes.get_context("spawn")
        port = 29500 + random.randrange(2000)
        ranks = [context.Process(target=run, args=(rank, port, work, given, directory, name)) for rank in range(RANKS)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        return max(abs(rank.exitcode) for rank in ranks)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    arguments.add_argument("--rounds", type=int, default=60)
    arguments.add_argument("--segments")
    arguments.add_argument("--batches", default="1,32")
    arguments.add_argument("--reduce", choices=("nccl", "peer"), default="nccl")
    raise SystemExit(on_two(compared, arguments.parse_args(), "native/overhead_tp2"))


if __name__ == "__main__":
    main()
