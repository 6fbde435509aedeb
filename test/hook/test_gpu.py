"""The hook on a GPU; skipped by name where there is none."""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import gpu_program
import models
import segment

HERE = Path(__file__).resolve().parent


pytestmark = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no GPU")


@pytest.fixture
def memory():
    """A folder in memory: a GPU maps no other files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield directory


@pytest.fixture
def run(memory):
    """Runs a scenario of gpu_program.py; gives what it printed and the segment."""

    def scenario(name):
        environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
        paths = os.pathsep.join([str(HERE.parents[1] / "native/hook"), str(HERE)])
        done = subprocess.run(
            [sys.executable, str(HERE / "gpu_program.py"), name, memory],
            env=environment | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        printed = ast.literal_eval(done.stdout.splitlines()[-1])
        assert printed["failures"] == 0, printed["first_failure"]
        return printed, segment.read(printed["segment"])

    return scenario


def test_a_captured_forward_pass_is_stamped_at_every_replay(run):
    printed, written = run("graph")
    assert printed["equal"]
    assert written.unpaired == []
    # One warm-up that was launched, then the replays.
    assert written.names() == models.FORWARD * (1 + gpu_program.REPLAYS)


def test_compiled_graphs_are_kept_and_stamped(run):
    printed, _ = run("reduce_overhead")
    assert printed["skips"] == 0
    assert printed["records"] == gpu_program.REPLAYS * len(models.FORWARD)


def test_nccl_calls_are_stamped(run):
    _, written = run("data_parallel")
    assert len(written.of("forward")) == len(written.of("backward")) == len(written.of("optimizer")) == 3
    assert [span.call for span in written.of("all_reduce")[-2:]] == [(8 * 256 * 4, 3), (8 * 256 * 4, 4)]
    assert [span.call[0] for span in written.of("all_reduce")[:3]] == [(256 * 256 + 256) * 4] * 3
    assert written.unpaired == ["+step"]


def test_durations_agree_with_events(run):
    printed, written = run("spin")
    (span,) = written.of("mlp")
    assert span.ms == pytest.approx(printed["ms"], rel=0.01, abs=0.02)
