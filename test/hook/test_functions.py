"""Probes of functions and of lines; neither needs torch."""

import sys
import textwrap

import picket_hook
import pytest

SOURCE = """
import functools

def outer(x):
    a = x + 1
    b = a * 2
    if b > 100:
        return "big"
    return b

def log(function):
    @functools.wraps(function)
    def logged(*args):
        return function(*args)
    return logged

class Worker:
    def run(self, n):
        total = 0
        for i in range(n):
            total += i
        return total

    @staticmethod
    def fixed():
        return 3

    @classmethod
    def named(cls):
        return cls.__name__

    @log
    def decorated(self):
        first = 1
        return first

async def later():
    return 1
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes the source as a module; gives a function that imports it."""
    (tmp_path / "picket_probed.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(str(tmp_path))

    def load():
        import picket_probed

        return picket_probed

    yield load
    sys.modules.pop("picket_probed", None)


def function_probe(name, phase="mlp"):
    return f'[[probes]]\nfunction = "picket_probed:{name}"\nphase = "{phase}"\n'


def line_probe(start, end, phase="norm"):
    return f'[[probes]]\nfile = "*/picket_probed.py"\nline_start = {start}\nline_end = {end}\nphase = "{phase}"\n'


def test_functions_are_stamped_when_their_module_is_imported(hook, module):
    hook.install("".join(function_probe(n) for n in ("outer", "Worker.run", "Worker.fixed", "Worker.named")))
    loaded = module()
    assert loaded.__spec__.loader.__class__.__name__ == "SourceFileLoader"
    assert (loaded.outer(1), loaded.Worker().run(3), loaded.Worker.fixed(), loaded.Worker.named()) == (
        4,
        3,
        3,
        "Worker",
    )
    assert hook.read().names() == ["+mlp", "-mlp"] * 4


def test_copies_of_a_loaded_function_are_replaced_too(hook, module, monkeypatch):
    copy = type(sys)("picket_copy")
    monkeypatch.setitem(sys.modules, "picket_copy", copy)
    copy.renamed = module().outer
    hook.install(function_probe("outer"))
    copy.renamed(1)
    assert hook.read().names() == ["+mlp", "-mlp"]
    assert copy.renamed is module().outer
    assert copy.renamed.__name__ == "outer"
    assert not hasattr(copy.renamed, "__wrapped__")


@pytest.mark.parametrize(
    ("name", "problem"), [("absent", "does not exist"), ("later", "runs in pieces"), ("Worker", "is no function")]
)
def test_a_function_that_cannot_be_stamped_is_named_with_its_line(hook, module, name, problem):
    hook.failures_expected = True
    config = hook.install(function_probe(name))
    module()
    assert f"{config}:1: picket_probed:{name} {problem}" in hook.first_failure()


def test_a_host_phase_is_a_mark(hook, module):
    hook.install(function_probe("outer", "checkpoint"))
    module().outer(1)
    written = hook.read()
    assert [span.name for span in written.spans] == ["checkpoint"]
    assert written.fences == []


def test_lines_are_stamped_before_and_after_import(hook, module):
    outer = module().outer
    hook.install(line_probe(5, 6) + line_probe(20, 21, "moe") + line_probe(34, 35, "router"))
    assert outer(1) == 4
    assert module().Worker().run(3) == 3
    assert module().Worker().decorated() == 1
    assert module().outer is outer
    assert hook.read().names() == ["+norm", "-norm", "+moe", "-moe", "+router", "-router"]
    assert outer(1) == 4


def test_a_return_inside_ends_the_phase(hook, module):
    hook.install(line_probe(7, 8))
    assert (module().outer(99), module().outer(1)) == ("big", 4)
    assert hook.read().names() == ["+norm", "-norm"] * 2


def test_ranges_may_nest(hook, module):
    hook.install(line_probe(19, 22, "attention") + line_probe(21, 21, "norm"))
    assert module().Worker().run(2) == 1
    assert hook.read().names() == ["+attention", "+norm", "-norm", "+norm", "-norm", "-attention"]


@pytest.mark.parametrize(("start", "end"), [(6, 7), (2, 3), (400, 401)])
def test_lines_that_are_no_whole_statements_are_refused(hook, module, start, end):
    hook.failures_expected = True
    config = hook.install(line_probe(start, end))
    assert module().outer(1) == 4
    assert f"{config}:1:" in hook.first_failure()
    assert "whole statements" in hook.first_failure()


def test_a_file_that_has_changed_since_it_was_loaded_is_refused(hook, module, tmp_path):
    hook.failures_expected = True
    outer = module().outer
    file = tmp_path / "picket_probed.py"
    file.write_text(file.read_text().replace("a * 2", "a * 3"))
    hook.install(line_probe(5, 6))
    assert outer(1) == 4
    assert "has changed since it was loaded" in hook.first_failure()


def test_status_counts_matches_of_each_probe(hook, module):
    hook.install(function_probe("outer") + line_probe(20, 21) + '[[probes]]\nmodule = "no.such"\nphase = "mlp"\n')
    module()
    assert list(picket_hook.status()["probes"].values()) == [0, 1, 1]


def test_compiled_lines_and_functions_keep_their_borders(hook, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7):
        pytest.skip("this PyTorch traces no context managers of users")
    source = (
        "def work(x, w):\n    y = x @ w\n    y = y.relu()\n    return helper(y)\n\ndef helper(y):\n    return y + 1\n"
    )
    (tmp_path / "picket_probed.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    hook.install(line_probe(2, 3) + function_probe("helper"))
    import picket_probed

    x = torch.eye(4)
    try:
        torch._dynamo.reset()
        assert torch.equal(torch.compile(picket_probed.work, fullgraph=True)(x, x), x + 1)
    finally:
        sys.modules.pop("picket_probed")
    assert hook.read().names() == ["+norm", "-norm", "+mlp", "-mlp"]
