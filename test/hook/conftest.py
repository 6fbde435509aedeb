"""Fixtures of the hook's tests: `python -m pytest test/hook`. What needs torch is skipped by name without it."""

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


@pytest.fixture
def hook(tmp_path):
    """The hook, to be installed from a TOML text; see Hooked. A test that provokes failures says so."""
    import picket_hook

    from hooked import Hooked

    hooked = Hooked(tmp_path)
    yield hooked
    picket_hook.stop()
    assert hooked.failures_expected or hooked.new_failures() == 0, hooked.first_failure()
