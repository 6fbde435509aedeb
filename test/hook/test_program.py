"""The command line, the autoload folder and the wheel."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "native/hook"
LIBRARY = HOOK.parent / "build/libpicket_fence.so"


def run(*arguments, **environment):
    paths = os.pathsep.join(filter(None, [environment.pop("PYTHONPATH", None), str(HOOK)]))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "picket.toml"
    file.write_text('[[probes]]\nfunction = "json:dumps"\nphase = "host_gap"\n')
    return file


def test_check_lists_probes_or_names_the_fault(config, tmp_path):
    done = run("-m", "picket_hook", "--config", config, "--check")
    assert (done.returncode, done.stdout) == (0, "json:dumps -> host_gap (host)\n")
    config.write_text("wrong = 1\n")
    done = run("-m", "picket_hook", "--config", config, "--check")
    assert done.returncode == 2
    assert f'{config}:1: unknown key "wrong"' in done.stderr
    assert run("-m", "picket_hook", "--config", tmp_path / "absent", tmp_path / "x.py").returncode == 2


def test_a_script_and_a_module_run_under_the_hook(config, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, json, picket_hook\njson.dumps(1)\nprint(sys.argv, picket_hook.status()['probes'])\n")
    done = run("-m", "picket_hook", "--config", config, script, "a", "--b", PICKET_DIR=str(tmp_path))
    assert done.stdout == f"['{script}', 'a', '--b'] {{'json:dumps': 1}}\n", done.stderr
    done = run("-m", "picket_hook", "-m", "json.tool", "--help")
    assert done.returncode == 0
    assert "usage" in done.stdout


def test_the_autoload_folder_starts_the_hook_and_then_the_next_sitecustomize(config, tmp_path):
    folder = run("-m", "picket_hook", "--autoload-path").stdout.strip()
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.other_ran = True\n")
    program = "import json, picket_hook; print(picket_hook.status()['probes'], other_ran)"
    environment = {"PYTHONPATH": f"{folder}{os.pathsep}{other}", "PICKET_CONFIG": str(config)}
    done = run("-c", program, **environment)
    assert done.stdout == "{'json:dumps': 1} True\n", done.stderr
    config.write_text("wrong = 1\n")
    done = run("-c", "import picket_hook; print(picket_hook.status(), other_ran)", **environment)
    assert done.stdout == "{'enabled': False} True\n"
    assert 'unknown key "wrong"' in done.stderr


def test_the_wheel_holds_presets_and_library(tmp_path):
    pytest.importorskip("setuptools", minversion="70.1", reason="needs setuptools: pip install setuptools")
    source = tmp_path / "native/hook"
    ignored = ("build", "*.egg-info", "__pycache__")
    shutil.copytree(HOOK, source, ignore=shutil.ignore_patterns(*ignored))
    (tmp_path / "native/build").mkdir()
    shutil.copy2(LIBRARY, tmp_path / "native/build")
    command = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path / "out", source]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name.startswith("picket_hook-0.1.0-py3-none-linux_")
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("libpicket_fence.so", "presets/llama.toml", "autoload/sitecustomize.py", "layout_generated.py"):
        assert f"picket_hook/{name}" in names
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert "[vllm.general_plugins]\npicket = picket_hook.engines.vllm:register" in (
        zipfile.ZipFile(wheel).read(entry_points).decode()
    )
