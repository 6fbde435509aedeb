"""Interleaved comparison of steps that differ only in how borders are stamped."""

import datetime
import itertools
import json
import random
import statistics
import sys

import torch

LEAD_CYCLES = 40_000_000  # some 20 ms
FIRST = []  # graphs that are not compared, kept with the memory that they allocated


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
    """Milliseconds of one of `times` runs, by events; one lies between any two (see interleaved)."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        run()
        mark.record()
    torch.cuda.synchronize()
    return marks[0].elapsed_time(marks[-1]) / times


def interleaved(runs, rounds, times, seed=1, pause_cycles=0, ahead=1):
    """{name: milliseconds of each round}; every round runs all of them `times` times, in an order of its own.

    As in engines, the host launches a run while the one before is under way: `ahead` are waiting at most.

    A kernel that only waits comes before each round, so that the host gets ahead; with `pause_cycles` also before each
    run, which keeps a GPU whose kernels draw all its power below its limit, where clocks are steady. An event lies
    between runs, as engines have work there: graphs of two ranks that follow each other at once run at two speeds some
    4 % apart, which come and go, unfenced ones too. Of several runs the first two, after another's, are not counted.
    """
    order, results, shuffle = list(runs), {name: [] for name in runs}, random.Random(seed)
    first = 2 if times > 2 else 0
    events = {name: [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)] for name in runs}
    for turn in range(rounds + 2):
        shuffle.shuffle(order)
        torch.cuda._sleep(LEAD_CYCLES)
        for name in order:
            if pause_cycles:
                torch.cuda._sleep(pause_cycles)
            events[name][0].record()
            for at, event in enumerate(events[name][1:]):
                runs[name]()
                event.record()
                if at >= ahead:
                    events[name][1 + at - ahead].synchronize()
        torch.cuda.synchronize()
        for name, marks in events.items():
            if turn >= 2:
                results[name].append(marks[first].elapsed_time(marks[-1]) / (times - first))
    return results


def overheads(results):
    """{name: (median milliseconds, percent over no fences, standard error of that)}: medians over the rounds, each
    against the mean of its own unfenced runs, so that drift of the GPU's clock does not count. Of the unfenced runs: each
    against the other. The standard error of a median of normal samples is 1.253 sigma / sqrt(n), sigma 1.483 MAD."""
    bases = [(a + b) / 2 for a, b in zip(results["none"], results["none_again"])]
    against = {"none": results["none_again"], "none_again": results["none"]}
    measured = {}
    for name, values in results.items():
        percents = [100 * (value / base - 1) for value, base in zip(values, against.get(name, bases))]
        middle = statistics.median(percents)
        mad = statistics.median(abs(percent - middle) for percent in percents)
        measured[name] = statistics.median(values), middle, 1.253 * 1.483 * mad / len(percents) ** 0.5
    return measured


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


class Graphs:
    """Captures of the same work; `nodes` were added to each for fences."""

    def __init__(self, graphs, nodes, replays_each):
        self.graphs, self.nodes = graphs, nodes
        self.turns = itertools.cycle([graph for graph in graphs for _ in range(replays_each)])

    def replay(self):
        """The next one, each `replays_each` times in turn: going from one to another takes its own time."""
        next(self.turns).replay()


def capture(work, recorders, switch, barrier=lambda: None, copies=1, replays_each=1, changes=None):
    """{name: Graphs} of `work()`, captured `copies` times with each recorder, in turn; None stamps nothing. `changes`:
    by name, what is done to a captured graph before it is instantiated.

    Where a graph lies changes a step by some tenths of a percent, hence copies. All of them have their activations in
    the same memory, which matters too. The first graph of each is not compared: it also allocates what the others find
    there, and the library learns from it which borders coincide.
    """
    pool, graphs, nodes = torch.cuda.graph_pool_handle(), {name: [] for name in recorders}, {}
    for name, recorder in list(recorders.items()) * (1 + copies):
        before = recorder.nodes() if recorder else 0
        switch.now = recorder
        change = (changes or {}).get(name)
        graph = torch.cuda.CUDAGraph(keep_graph=change is not None)
        barrier()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            work()
        switch.now = None
        if change:
            change(graph)
            graph.instantiate()
        graphs[name].append(graph)
        nodes[name] = (recorder.nodes() if recorder else 0) - before
    FIRST.extend(captured[0] for captured in graphs.values())
    return {name: Graphs(captured[1:], nodes[name], replays_each) for name, captured in graphs.items()}


def check_outputs(graphs, output):
    """Outputs are bit-identical with and without fences."""
    expected = None
    for name in sorted(graphs):
        for graph in graphs[name].graphs:
            output.zero_()
            graph.replay()
            torch.cuda.synchronize()
            expected = output.clone() if expected is None else expected
            if not torch.equal(output, expected):
                sys.exit(f"{name}: the output differs from the unfenced graph's")


def check_counts(graphs, pickets, replays=50):
    """Every replay writes exactly its records, by the sequence numbers in the ring."""

    def written(picket, graph, times):
        start = picket.written()
        for _ in range(times):
            graph.replay()
        torch.cuda.synchronize()
        return picket.written() - start

    for name, picket in pickets.items():
        for graph in graphs[name].graphs:
            written(picket, graph, 1)
            once, many = written(picket, graph, 1), written(picket, graph, replays)
            if once == 0 or many != replays * once:
                sys.exit(f"{name}: {many} records of {replays} replays of {once}")


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
