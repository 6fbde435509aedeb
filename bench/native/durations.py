"""Do fences measure what the PyTorch profiler and CUDA events measure? One GPU; one JSON line a length of a phase.

    python3 bench/native/durations.py [--out FILE]

A phase of three matrix products between others, in CUDA graphs: its span by fences (beside the stream and in line), by
event-record nodes, and by the profiler: from the start of its first kernel to the end of its last, in a graph without
fences or events. Each in a graph of its own, so that none is inside another's span.
"""

import argparse
import statistics
import tempfile

import compare
import torch
from recorders import NO_BUDGET, Events, Picket, Switch

PRODUCTS, REPLAYS = 3, 60


def graph_of(size, recorder, switch):
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
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

    return compare.capture(work, {"graph": recorder}, switch)["graph"][0]


def replayed(graph):
    for _ in range(REPLAYS):
        graph.replay()
        torch.cuda.synchronize()


def by_fences(size, form, directory, switch):
    picket = Picket(directory, NO_BUDGET, form)
    replayed(graph_of(size, picket, switch))
    spans = compare.durations(picket, "mlp")
    assert len(spans) == REPLAYS
    picket.close()
    return statistics.median(spans) * 1000


def by_events(size, switch):
    events = Events()
    graph, spans = graph_of(size, events, switch), []
    for _ in range(REPLAYS):
        graph.replay()
        torch.cuda.synchronize()
        spans.append(events.events[0].elapsed_time(events.events[1]))
    return statistics.median(spans) * 1000


def by_profiler(size, switch):
    graph = graph_of(size, None, switch)
    replayed(graph)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        replayed(graph)
    kernels = sorted(
        (event.time_range.start, event.time_range.end)
        for event in profiler.events()
        if event.device_type == torch.autograd.DeviceType.CUDA and "emcpy" not in event.name
    )
    a_replay = len(kernels) // REPLAYS
    assert a_replay % (PRODUCTS + 2) == 0, f"{len(kernels)} kernels in {REPLAYS} replays"
    a_product = a_replay // (PRODUCTS + 2)
    first, last = a_product, a_product * (PRODUCTS + 1) - 1
    starts = range(0, len(kernels), a_replay)
    return statistics.median(kernels[at + last][1] - kernels[at + first][0] for at in starts)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    given = arguments.parse_args()
    report, switch = compare.Report("native/durations", given.out), Switch()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        for size in (512, 2048, 4096, 8192):
            spans = {
                "side_us": by_fences(size, "side", directory, switch),
                "in_line_us": by_fences(size, "in_line", directory, switch),
                "events_us": by_events(size, switch),
                "profiler_us": by_profiler(size, switch),
            }
            allowed = max(1.0, spans["profiler_us"] / 100)
            off = {f"{name[:-3]}_off_us": round(spans[name] - spans["profiler_us"], 3) for name in list(spans)[:3]}
            within = all(abs(off[name]) <= allowed for name in ("side_off_us", "in_line_off_us"))
            report.line(size=size, **{k: round(v, 3) for k, v in spans.items()}, **off, within=within)


if __name__ == "__main__":
    main()
