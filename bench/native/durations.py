"""Do fences measure what the PyTorch profiler and CUDA events measure? One GPU; one JSON line a length of a phase.

    python3 bench/native/durations.py [--out FILE]

A phase of three matrix products between others, in CUDA graphs. Against the profiler in the same replays: from the
start of the phase's first kernel to the end of its last. Against event-record nodes in replays that take turns, since
an event inside the span would be part of it.
"""

import argparse
import statistics
import tempfile

import compare
import torch
from recorders import Events, Picket, Switch

PRODUCTS, REPLAYS = 3, 60
ALL = 1.0  # a budget that leaves no border out; without any, what a fence costs is not measured


def graph_of(a, recorder, switch):
    switch.now = None
    for _ in range(3):
        a @ a

    def work():
        a @ a
        switch.begin("mlp")
        for _ in range(PRODUCTS):
            a @ a
        switch.end("mlp")
        a @ a

    return compare.capture(work, {"graph": recorder}, switch)["graph"]


def replayed(*graphs):
    for _ in range(REPLAYS):
        for graph in graphs:
            graph.replay()
            torch.cuda.synchronize()


def kernel_spans(profiler):
    """Microseconds of each replay from the start of the phase's first kernel to the end of its last, and from the end
    of the kernel before it to that start."""
    kernels = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(("Mem", "picket"))
    )
    a_replay = len(kernels) // REPLAYS
    a_product = a_replay // (PRODUCTS + 2)
    assert a_product and a_replay == a_product * (PRODUCTS + 2), f"{len(kernels)} kernels in {REPLAYS} replays"
    first, last = a_product, a_product * (PRODUCTS + 1) - 1
    starts = range(0, len(kernels), a_replay)
    spans = [kernels[at + last][1] - kernels[at + first][0] for at in starts]
    return spans, [kernels[at + first][0] - kernels[at + first - 1][1] for at in starts]


def against_profiler(graph, picket):
    """Median microseconds by the profiler, by how much fences are off in the same replays, and the gap before it."""
    before = len(compare.durations(picket, "mlp"))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        replayed(graph)
    (kernels, gaps), fences = kernel_spans(profiler), compare.durations(picket, "mlp")[before:]
    assert len(kernels) == len(fences) == REPLAYS
    off = [1000 * fence - kernel for fence, kernel in zip(fences, kernels)]
    return statistics.median(kernels), statistics.median(off), statistics.median(gaps)


def against_events(fenced, picket, events, event_graph):
    """Median microseconds by event-record nodes, and of fences, in replays that take turns."""
    before, spans = len(compare.durations(picket, "mlp")), []
    for _ in range(REPLAYS):
        for graph in (fenced, event_graph):
            graph.replay()
            torch.cuda.synchronize()
        spans.append(1000 * events.events[-2].elapsed_time(events.events[-1]))
    fences = compare.durations(picket, "mlp")[before:]
    return statistics.median(spans), 1000 * statistics.median(fences)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    given = arguments.parse_args()
    report, switch = compare.Report("native/durations", given.out), Switch()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        for size in (512, 2048, 4096, 8192):
            # Lives as long as the graphs that read it.
            a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16) / size**0.5
            events = Events()
            event_graph = graph_of(a, events, switch)
            for form in ("side", "in_line"):
                picket = Picket(directory, ALL, form)
                graph = graph_of(a, picket, switch)
                replayed(graph, event_graph)
                by_event, by_fence = against_events(graph, picket, events, event_graph)
                kernels, off, gap = against_profiler(graph, picket)
                report.line(
                    size=size,
                    form=form,
                    fences_us=round(by_fence, 3),
                    events_us=round(by_event, 3),
                    profiler_us=round(kernels, 3),
                    off_profiler_us=round(off, 3),
                    gap_before_us=round(gap, 3),
                    within=abs(off) <= max(1.0, kernels / 100),
                )
                picket.close()


if __name__ == "__main__":
    main()
