"""Collectives of two processes on gloo, read back from their segments."""

import ast
import json
import os
import socket
import statistics
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import fleet
import segment
from picket_hook import ddp

HERE = Path(__file__).resolve().parent
DEADLINE_S = 120


def run(directory, scenario, **environment):
    """Runs a scenario of fleet.py; gives for each rank (what it printed, its segment, None where it was off)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join([str(HERE.parents[1] / "native/hook"), str(HERE)])
    ranks = [
        subprocess.Popen(
            [sys.executable, str(HERE / "fleet.py"), scenario, str(rank), str(port), str(directory)],
            env={**os.environ, "PYTHONPATH": paths, "PICKET_JOB": "fleet", **environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        printed = [ast.literal_eval(rank.communicate(timeout=DEADLINE_S)[0]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(status, status.get("segment") and segment.read(status["segment"])) for status in printed]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run(tmp_path_factory.mktemp("train"), "train")


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    return run(tmp_path_factory.mktemp("calls"), "calls")


def test_the_rank_that_others_wait_for_is_the_slow_one(trained):
    (fast_status, fast), (slow_status, slow) = trained
    assert (fast_status["failures"], slow_status["failures"]) == (0, 0), fast_status["first_failure"]
    for written in (fast, slow):
        assert [step["step"] for step in written.steps()] == list(range(fleet.STEPS))
        assert len(written.of("forward")) == len(written.of("backward")) == len(written.of("optimizer")) == fleet.STEPS
        assert len(written.of("dataload")) == fleet.STEPS + 1
        reductions = written.of("all_reduce")
        assert {span.group for span in reductions} == {"world:0-1"}
        assert [span.call[1] for span in reductions] == list(range(len(reductions)))
    slow_ms = fleet.SLOW_SECONDS * 1e3
    assert median(slow, "forward") >= slow_ms
    assert median(fast, "forward") < slow_ms
    # The reduction lasts as long as the slower rank is late, and for that one only as long as the transfer.
    assert median(fast, "all_reduce") > median(slow, "all_reduce") + slow_ms / 2
    # So does what the backward pass waits at its end, which is a phase inside it.
    assert len(fast.of("all_reduce_wait")) == len(slow.of("all_reduce_wait")) == fleet.STEPS
    assert median(fast, "all_reduce_wait") > median(slow, "all_reduce_wait") + slow_ms / 2
    # 64 x 64 + 64 numbers of each of two layers, in one bucket.
    assert fast.of("all_reduce")[-1].call[0] == 2 * (64 * 64 + 64) * 4
    facts = {"host": "", "job": "fleet", "rank": 1, "world_size": 2, "groups": {"world:0-1": [0, 1]}}
    assert json.loads(slow.attributes) | {"host": ""} == facts


def median(written, name):
    return statistics.median(span.ms for span in written.of(name))


def test_gradients_are_bit_identical_without_the_hook(trained, tmp_path):
    off = run(tmp_path, "train", PICKET_DISABLE="1")
    assert [status["enabled"] for status, _ in off] == [False, False]
    assert [status["result"] for status, _ in off] == [status["result"] for status, _ in trained]
    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_call_has_bytes_group_and_number(called):
    world, tensor = "world:0-1", "tensor_model_parall1:0-1"
    for rank, (status, written) in enumerate(called):
        assert status["failures"] == 0, status["first_failure"]
        assert status["result"][0] == [2.0] * 4
        assert written.unpaired == []
        there = [(span.op, span.group, *span.call) for span in written.spans if span.op]
        assert there[:9] == [
            ("all_reduce", world, 16, 0),
            ("all_reduce", world, 16, 1),
            ("all_gather", world, 32, 2),
            ("all_gather", world, 32, 3),
            ("broadcast", world, 16, 4),
            ("reduce_scatter", world, 16, 5),
            ("all_to_all", world, 16, 6),
            ("barrier", world, 0, 7),
            ("all_reduce", tensor, 16, 0),
        ]
        assert (("all_reduce", "pg2:0", 16, 0) in there) == (rank == 0)
        mine, other = f"world:{rank}>{1 - rank}", f"world:{1 - rank}>{rank}"
        assert [call for call in there if call[0] == "send"] == [("send", mine, 16, 0), ("send", mine, 16, 1)]
        assert [call for call in there if call[0] == "recv"] == [("recv", other, 16, 0), ("recv", other, 16, 1)]
        assert ("all_reduce", world, 16, 8) in there  # the functional one


def test_collectives_in_a_compiled_region_are_left_to_the_compiler(called):
    assert [status["result"][1] for status, _ in called] == [[3.0, 3.0]] * 2


def test_a_communication_hook_of_the_users_own_is_left_alone(called):
    assert [status["result"][2] for status, _ in called] == [[[2.0] * 4] * 4] * 2


def test_the_process_does_not_end_while_a_thread_holds_a_callback(monkeypatch):
    def callback():
        pass

    held = [callback]
    ddp._callbacks.add(weakref.ref(callback, ddp._callbacks.discard))
    del callback
    monkeypatch.setattr(ddp.time, "sleep", lambda _: held.clear())
    ddp._settle()
    assert held == []
    assert not ddp._callbacks
