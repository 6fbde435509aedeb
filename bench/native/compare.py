"""Interleaved comparison of steps that differ only in how borders are stamped."""

import datetime
import json
import random
import statistics
import sys

import torch

LEAD_CYCLES = 40_000_000  # some 20 ms


class Report:
    """Prints JSON lines and keeps them in a file."""

    def __init__(self, bench, path):
        self.bench, self.path = bench, path
        self.command = " ".join(["python3", *sys.argv])

    def line(self, **facts):
        head = {
            "bench": self.bench,
            "date": datetime.date.today().isoformat(),
            "command": self.command,
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
        }
        text = json.dumps(head | facts)
        print(text, flush=True)
        if self.path:
            with open(self.path, "a") as file:
                file.write(text + "\n")


def timed(run, times):
    """Milliseconds of one of `times` runs, by events."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / times


def interleaved(runs, rounds, times, seed=1):
    """{name: milliseconds of each round}; every round runs all of them `times` times, in an order of its own.

    Within a round the GPU has no pause: a kernel at its start lets the host get ahead.
    """
    order, results, shuffle = list(runs), {name: [] for name in runs}, random.Random(seed)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(runs) + 1)]
    for turn in range(rounds + 2):
        shuffle.shuffle(order)
        torch.cuda._sleep(LEAD_CYCLES)
        for event, name in zip(events, order):
            event.record()
            for _ in range(times):
                runs[name]()
        events[-1].record()
        events[-1].synchronize()
        for begin, end, name in zip(events, events[1:], order):
            if turn >= 2:
                results[name].append(begin.elapsed_time(end) / times)
    return results


def overheads(results):
    """{name: (median milliseconds, percent over no fences)}: medians over the rounds, each against the mean of its own
    unfenced runs, so that drift of the GPU's clock does not count. Of the unfenced runs: each against the other."""
    bases = [(a + b) / 2 for a, b in zip(results["none"], results["none_again"])]
    against = {"none": results["none_again"], "none_again": results["none"]}
    return {
        name: (
            statistics.median(values),
            100 * statistics.median(value / base - 1 for value, base in zip(values, against.get(name, bases))),
        )
        for name, values in results.items()
    }


def profiled(run, rounds, times, barrier=torch.cuda.synchronize):
    """Percent that the PyTorch profiler adds: blocks with and without it in turn, the first block left out."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    plain, under = [], []

    def block():
        barrier()
        timed(run, 2)
        return timed(run, times)

    for _ in range(rounds + 1):
        plain.append(block())
        with torch.profiler.profile(activities=activities):
            under.append(block())
    return 100 * (statistics.median(under[1:]) / statistics.median(plain[1:]) - 1)


def capture(work, recorders, switch, barrier=lambda: None):
    """{name: (graph, nodes added)} of `work()`, captured once with each recorder; None stamps nothing.

    All graphs use the same memory: where activations lie changes a step by half a percent. A first graph is not
    compared: it also allocates what the others find there.
    """
    graphs, pool = {}, torch.cuda.graph_pool_handle()
    for name, recorder in [("", None), *recorders.items()]:
        nodes = recorder.nodes() if recorder else 0
        switch.now = recorder
        graph = torch.cuda.CUDAGraph()
        barrier()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            work()
        switch.now = None
        graphs[name] = (graph, (recorder.nodes() if recorder else 0) - nodes)
    return graphs


def check_outputs(graphs, output):
    """Outputs are bit-identical with and without fences."""
    expected = None
    for name, (graph, _) in graphs.items():
        output.zero_()
        graph.replay()
        torch.cuda.synchronize()
        expected = output.clone() if expected is None else expected
        if not torch.equal(output, expected):
            sys.exit(f"{name}: the output differs from the unfenced graph's")


def check_counts(graphs, pickets, replays=50):
    """Every replay writes exactly its records, by the sequence numbers in the ring."""
    for name, picket in pickets.items():
        graph = graphs[name][0]
        graph.replay()
        torch.cuda.synchronize()
        start = picket.written()
        graph.replay()
        torch.cuda.synchronize()
        once = picket.written() - start
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
        if once == 0 or picket.written() - start != (replays + 1) * once:
            sys.exit(f"{name}: {picket.written() - start} records of {replays + 1} replays of {once}")


def durations(picket, name):
    """Milliseconds of the phase's spans that the ring holds."""
    begun, spans = [], []
    for _, time, kind, phase in picket.records():
        if phase != name:
            continue
        if kind == 0:
            begun.append(time)
        elif begun:
            spans.append((time - begun.pop()) / 1e6)
    return spans
