"""Fixtures of the hook's tests: `python -m pytest test/hook`. What needs torch is skipped by name without it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "native/hook"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

LIBRARY = ROOT / "native/build/libpicket_fence.so"
HAS_TORCH = importlib.util.find_spec("torch") is not None


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs PyTorch")


def pytest_sessionstart():
    if not LIBRARY.exists():
        subprocess.run(["make", "-C", str(ROOT / "native"), "build/libpicket_fence.so"], check=True)


def pytest_collection_modifyitems(items):
    for item in items:
        if not HAS_TORCH and ("torch" in item.keywords):
            item.add_marker(pytest.mark.skip(reason="PyTorch is not installed: pip install torch"))


@pytest.fixture
def hook(tmp_path):
    """A function that installs the hook from a TOML text; the segment is read with `read()` after it is stopped."""
    import picket_hook

    from hooked import Hooked

    hooked = Hooked(tmp_path)
    yield hooked
    picket_hook.stop()
    assert hooked.failures_expected or hooked.new_failures() == 0, hooked.first_failure()
