"""Off, broken or in a child process: the engine goes on."""

import os
import subprocess
import sys
from pathlib import Path

import picket_hook
import pytest
from picket_hook import library
from picket_hook.failures import FAILURES

import segment

HOOK = Path(__file__).resolve().parents[2] / "native/hook"


def python(program, **environment):
    """Runs a program text with the hook importable; gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(HOOK), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_disabled_imports_nothing_and_does_nothing(tmp_path):
    program = """
import sys
before = set(sys.modules)
import picket_hook
print(sorted(set(sys.modules) - before))
print(picket_hook.install("no such file"), picket_hook.install_from_environment(), picket_hook.status())
with picket_hook.step(1, tokens=2), picket_hook.phase("forward"):
    picket_hook.describe(rank=1)
print(picket_hook.attach("model"), picket_hook.phase("x")(len)("ab"))
print(sorted(name for name in set(sys.modules) - before if "picket" in name or name == "ctypes"))
"""
    lines = python(program, PICKET_DISABLE="1", PICKET_DIR=str(tmp_path)).splitlines()
    assert lines == ["['picket_hook']", "False False {'enabled': False}", "model 2", "['picket_hook']"]
    assert list(tmp_path.iterdir()) == []


def test_importing_the_hook_alone_loads_nothing_else():
    program = "import sys; a = set(sys.modules); import picket_hook; print(sorted(set(sys.modules) - a))"
    assert python(program).strip() == "['picket_hook']"


def test_the_hook_loads_no_third_party_module():
    program = """
import sys
before = set(sys.modules)
import picket_hook
picket_hook.install()
paths = [getattr(sys.modules[name], "__file__", None) or "" for name in set(sys.modules) - before]
print([path for path in paths if "site-packages" in path and "tomli" not in path])
"""
    assert python(program).strip() == "[]"


def test_without_the_library_the_engine_runs_and_is_told_once(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("PICKET_FENCE_LIB", str(tmp_path / "nowhere.so"))
    FAILURES.first = None
    before = FAILURES.count
    assert picket_hook.install() is False
    assert picket_hook.install() is False
    assert FAILURES.count == before + 2
    assert len(caplog.records) == 1
    assert "make -C native" in caplog.text
    with picket_hook.step(1), picket_hook.phase("forward"):
        pass


def test_a_directory_that_cannot_be_written_is_told_once(hook, tmp_path):
    hook.failures_expected = True
    config = tmp_path / "picket.toml"
    config.write_text(f'[fence]\ndirectory = "{tmp_path}/absent"\n')
    picket_hook.install(config)
    for _ in range(3):
        with picket_hook.phase("forward"):
            pass
    assert hook.new_failures() == 1
    assert "absent" in hook.first_failure()
    assert picket_hook.status()["segment"] is None


@pytest.mark.parametrize("call", ["begin", "end", "mark", "registered", "step", "step_unknown"])
def test_any_call_of_the_library_may_fail(hook, monkeypatch, call):
    hook.failures_expected = True

    def fail(*_arguments):
        raise OSError(f"injected into {call}")

    made = library.Library.__init__

    def broken(self, *arguments):
        made(self, *arguments)
        setattr(self, call, fail)

    monkeypatch.setattr(library.Library, "__init__", broken)
    hook.install()
    with picket_hook.step(tokens=1), picket_hook.phase("forward"), picket_hook.phase("dataload"):
        seen = 1
    assert seen == 1
    assert f"injected into {call}" in hook.first_failure()
    assert picket_hook.status()["failures"] == FAILURES.count


def test_codes_of_the_library_are_counted_with_its_message(hook):
    hook.failures_expected = True
    hook.install()
    with picket_hook.phase("x" * 40):
        pass
    assert "longer than 39 bytes" in hook.first_failure()


@pytest.mark.parametrize("broken", ["backward", "optimizer", "dataload", "collectives"])
def test_a_part_that_does_not_fit_leaves_the_others(hook, monkeypatch, broken):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    from picket_hook import session

    import models

    def misfit(*_arguments):
        raise AttributeError(f"this PyTorch has no {broken}")

    hook.failures_expected = True
    monkeypatch.setattr(getattr(session, broken), "install", misfit)
    hook.install(models.PROBES)
    models.Decoder()(torch.zeros(1, 2, dtype=torch.long))
    assert hook.read().names() == models.FORWARD
    assert hook.first_failure().endswith(f"misfit: AttributeError: this PyTorch has no {broken}")


def test_unknown_facts_of_a_step_are_counted_and_the_others_kept(hook):
    hook.failures_expected = True
    hook.install()
    picket_hook.step(3, tokens=5, colour="red")
    assert 'step: "colour" is unknown' in hook.first_failure()
    assert hook.read().steps()[0]["tokens"] == 5


def test_a_forked_child_writes_a_segment_of_its_own(hook, tmp_path):
    hook.install()
    with picket_hook.phase("forward"):
        pass
    here = picket_hook.status()["segment"]
    child = os.fork()
    if child == 0:
        with picket_hook.phase("backward"):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    (there,) = [path for path in tmp_path.glob("picket-*") if str(path) != here and path.suffix != ".toml"]
    assert segment.read(there).names() == ["+backward", "-backward"]
    assert hook.read().names() == ["+forward", "-forward"]


def test_facts_of_the_job_are_in_the_segment(hook, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("PICKET_RUN", "2")
    hook.install('[job]\nname = "pretrain"\nmodel = "tiny"\n')
    picket_hook.describe(stage=1)
    with picket_hook.phase("forward"):
        pass
    text = hook.read().attributes
    for part in ('"job":"pretrain"', '"run":"2"', '"rank":3', '"model":"tiny"', '"stage":1'):
        assert part in text
    picket_hook._facts.clear()


def test_facts_that_are_too_long_leave_the_needed_ones(hook):
    hook.failures_expected = True
    hook.install(f'[job]\nname = "pretrain"\nmodel = "{"x" * 2048}"\n')
    with picket_hook.phase("forward"):
        pass
    assert '"job":"pretrain"' in hook.read().attributes
    assert "longer than 2047 bytes" in hook.first_failure()
