"""Is a process whose graphs have fences slower than one that never had any? Decode on one GPU, each mode in processes of
its own, in turn: what fences might do to the whole process cannot show where graphs with and without share one.

    python3 bench/native/processes.py [--out FILE] [--turns 8] [--batch 1]
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile

MODES = ("none", "picket", "picket_full")
LAYERS, COPIES, REPLAYS, ROUNDS = 36, 4, 30, 6


def measure(mode, batch):
    """Milliseconds of a step, median over rounds of the mean over graphs, and the library's plan."""
    import compare
    import engine
    import torch
    from recorders import NO_BUDGET, Picket, Switch

    sys.stdin.readline()  # the GPU is ours now
    torch.manual_seed(0)
    switch = Switch()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory, torch.no_grad():
        picket = Picket(directory, NO_BUDGET if mode == "picket_full" else None) if mode != "none" else None
        model = engine.build(LAYERS, switch).eval()
        work, _ = engine.decoding(model, LAYERS, batch)
        switch.now = picket
        for _ in range(4):
            work()
        torch.cuda.synchronize()
        graphs = compare.capture(work, {mode: picket}, switch, copies=COPIES)[mode].graphs
        runs = {index: graph.replay for index, graph in enumerate(graphs)}
        rounds = compare.interleaved(runs, ROUNDS, REPLAYS)
        means = [statistics.mean(times) for times in zip(*rounds.values())]
        print(json.dumps({"ms": statistics.median(means), "plan": picket.plan() if picket else None}))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--out")
    arguments.add_argument("--turns", type=int, default=8)
    arguments.add_argument("--batch", type=int, default=1)
    arguments.add_argument("--measure", choices=MODES, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.measure:
        return measure(given.measure, given.batch)
    # Processes import what they need while others measure.
    waiting, results = collections.deque(), {mode: [] for mode in MODES}
    wanted = [mode for turn in range(given.turns) for mode in (MODES if turn % 2 == 0 else MODES[::-1])]
    for index, mode in enumerate(wanted):
        while len(waiting) < 4 and index + len(waiting) < len(wanted):
            command = [sys.executable, __file__, "--batch", str(given.batch), "--measure", wanted[index + len(waiting)]]
            waiting.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        output, _ = waiting.popleft().communicate("\n")
        results[mode].append(json.loads(output.splitlines()[-1]))
    import compare

    report = compare.Report("native/processes", given.out)
    base = statistics.mean(result["ms"] for result in results["none"])
    for mode, measured in results.items():
        times = [result["ms"] for result in measured]
        report.line(
            scenario=f"decode batch {given.batch}", mode=mode, processes=len(times),
            step_ms=[round(time, 4) for time in times], plan=measured[0]["plan"],
            overhead_percent=round(100 * (statistics.mean(times) / base - 1), 3),
            error=round(100 * statistics.stdev(times) / base / len(times) ** 0.5, 3),
        )  # fmt: skip


if __name__ == "__main__":
    main()
