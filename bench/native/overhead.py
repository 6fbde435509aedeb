"""What fences cost on one GPU: decode in CUDA graphs, a prefill and a training step of an 8B-shaped decoder.

    python3 bench/native/overhead.py [--out FILE] [--rounds 40] [--scenarios decode1,decode32,prefill,train]

Needs PyTorch, a GPU, nvcc and `make -C native`. In one run, interleaved: no fences twice, the fence library with its
default budget and with every border, in-line fences built as in LMTracer, CUDA events, and the PyTorch profiler. Checks
that outputs are bit-identical and every replay writes exactly its records, then prints one JSON line a figure. A
scenario counts only when the two unfenced runs differ by less than 0.1 %.
"""

import argparse
import tempfile

import compare
import engine
import torch
from recorders import NO_BUDGET, Events, InLine, Only, Picket, Switch

LAYERS, TRAINED_LAYERS, PREFILL, TRAINED_TOKENS = 36, 8, 2048, 1024
COPIES, REPLAYS = 6, 20
PAUSE_CYCLES = 60_000_000  # some 30 ms


def decode(report, switch, model, pickets, batch, rounds):
    work, output = engine.decoding(model, LAYERS, batch)
    warm_up(work, pickets, switch)
    layers = Only(pickets["picket_full"], ("forward", "layer"))
    recorders = {"none": None, **pickets, "picket_layers": layers, "in_line": InLine()}
    recorders |= {"events": Events(), "none_again": None}
    graphs = compare.capture(work, recorders, switch, copies=COPIES, replays_each=REPLAYS)
    compare.check_outputs(graphs, output)
    compare.check_counts(graphs, pickets)
    runs = {name: graph.replay for name, graph in graphs.items()}
    results = compare.interleaved(runs, rounds, REPLAYS)
    profiler = compare.profiled(runs["none"], 4, 40)
    tell(report, f"decode batch {batch}", results, profiler, pickets, {name: graphs[name].nodes for name in runs})


def prefill(report, switch, model, pickets, rounds):
    x = engine.tokens(PREFILL)
    launched(report, f"prefill {PREFILL} tokens", switch, pickets, lambda: model(x), 2 * rounds)


def train(report, switch, pickets, rounds):
    model = engine.build(TRAINED_LAYERS, switch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    x = engine.tokens(TRAINED_TOKENS)

    def step():
        loss = model(x).float().pow(2).mean()
        for name, work in (("backward", loss.backward), ("optimizer", optimizer.step)):
            switch.begin(name)
            work()
            switch.end(name)
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    with torch.enable_grad():
        launched(report, f"training step {TRAINED_TOKENS} tokens", switch, pickets, step, 2 * rounds)


def launched(report, scenario, switch, pickets, work, rounds):
    """Work that is launched kernel by kernel."""
    warm_up(work, pickets, switch)
    recorders = {"none": None, **pickets, "in_line": InLine(), "events": Events(in_graph=False), "none_again": None}

    def stamped(recorder):
        switch.now = recorder
        work()
        switch.now = None

    runs = {name: lambda recorder=recorder: stamped(recorder) for name, recorder in recorders.items()}
    results = compare.interleaved(runs, rounds, 1, pause_cycles=PAUSE_CYCLES)
    profiler = compare.profiled(runs["none"], 3, 4)
    tell(report, scenario, results, profiler, pickets, {})


def warm_up(work, pickets, switch):
    """As engines do; the library learns here what a pass holds and how long it takes."""
    for recorder in (None, *pickets.values()):
        switch.now = recorder
        for _ in range(4):
            work()
        torch.cuda.synchronize()
    switch.now = None


def tell(report, scenario, results, profiler, pickets, nodes):
    measured = compare.overheads(results)
    noise = abs(measured["none_again"][1])
    for name, (ms, percent, error) in measured.items():
        facts = {"plan": pickets[name].plan(), "costs_ns": pickets[name].costs_ns()} if name in pickets else {}
        report.line(
            scenario=scenario,
            mode=name,
            nodes=nodes.get(name),
            step_ms=round(ms, 4),
            overhead_percent=round(percent, 3),
            error=round(error, 3),
            counts=noise < 0.1,
            **facts,
        )
    report.line(scenario=scenario, mode="profiler", overhead_percent=round(profiler, 3), counts=noise < 0.1)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--scenarios", default="decode1,decode32,prefill,train")
    given = arguments.parse_args()
    wanted = given.scenarios.split(",")
    torch.manual_seed(0)
    report, switch = compare.Report("native/overhead", given.out), Switch()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        both = (("picket", None), ("picket_full", NO_BUDGET))
        pickets = lambda: {name: Picket(directory, budget) for name, budget in both}  # noqa: E731
        if set(wanted) - {"train"}:
            model = engine.build(LAYERS, switch).eval()
        for batch in (1, 32):
            if f"decode{batch}" in wanted:
                decode(report, switch, model, pickets(), batch, given.rounds)
        if "prefill" in wanted:
            prefill(report, switch, model, pickets(), given.rounds)
        if "train" in wanted:
            model = None
            torch.cuda.empty_cache()
            train(report, switch, pickets(), given.rounds)


if __name__ == "__main__":
    main()
