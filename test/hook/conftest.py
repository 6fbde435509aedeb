"""Fixtures of the hook's tests: `python -m pytest test/hook`. What needs torch is skipped by name without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "native/hook"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # test_gpu.py alone wants one, in processes of its own

LIBRARY = ROOT / "native/build/libpicket_fence.so"


def pytest_sessionstart():
    if not LIBRARY.exists():
        subprocess.run(["make", "-C", str(ROOT / "native"), "build/libpicket_fence.so"], check=True)


def pytest_runtest_logreport(report):
    # A test is one call; what goes wrong before or after it counts too.
    if report.when == "call" or report.outcome != "passed":
        _tell(report)


def pytest_collectreport(report):
    if report.outcome != "passed":
        _tell(report)


def _tell(report):
    """One line of JSON a test for pytest.test.ts, if it asks."""
    if not (file := os.environ.get("PICKET_TEST_REPORTS")):
        return
    skipped = report.outcome == "skipped" and isinstance(report.longrepr, tuple)
    text = report.longrepr[2] if skipped else report.longreprtext
    with open(file, "a", encoding="utf-8") as out:
        print(json.dumps({"name": report.nodeid, "outcome": report.outcome, "text": text}), file=out)


@pytest.fixture
def hook(tmp_path):
    """The hook, to be installed from a TOML text; see Hooked. A test that provokes failures says so."""
    import picket_hook

    from hooked import Hooked

    hooked = Hooked(tmp_path)
    yield hooked
    picket_hook.stop()
    assert hooked.failures_expected or hooked.new_failures() == 0, hooked.first_failure()
