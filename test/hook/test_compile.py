"""torch.compile: borders stay, in order, with the kernels that belong to them."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import picket_hook
from picket_hook import tracing
from torch.profiler import ProfilerActivity, profile

import models

TRACES_WITH = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 7)
MODULES = '[features]\nbackward = "modules"\n'
BACKWARD_LAYER = [
    "+layer_backward",
    "+mlp_backward",
    "-mlp_backward",
    "+attention_backward",
    "-attention_backward",
    "-layer_backward",
]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    from torch._inductor import config

    with pytest.MonkeyPatch.context() as patch, config.patch(compile_threads=1, fx_graph_cache=False):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    torch.manual_seed(0)


def tokens():
    return torch.arange(8).reshape(1, 8)


def events_of(run):
    """Names of the operators that `run()` executes, in the order in which they start."""
    with profile(activities=[ProfilerActivity.CPU]) as trace:
        run()
    # Some releases record an operator once more for each layer of dispatch.
    events = [event for event in trace.events() if event.cpu_parent is None or event.cpu_parent.name != event.name]
    return [event.name for event in sorted(events, key=lambda event: event.time_range.start)]


def test_kernels_run_inside_the_borders_of_their_phase(hook):
    hook.install(models.PROBES + MODULES)
    model = models.Decoder()
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True)
        compiled(tokens())
        names = events_of(lambda: compiled(tokens()))
    mark = f"picket::{tracing.op_name('mark', tracing.MARK_SCHEMA)}"
    kept = [
        name for name in names if name == mark or name in ("aten::mm", "aten::addmm", "aten::bmm", "mkl::_mkl_linear")
    ]
    # forward; per layer: layer begins, attention (qkv, scores, values, out), mlp (up, down), layer ends; head; forward.
    layer = [mark, mark, *["product"] * 4, mark, mark, *["product"] * 2, mark, mark]
    assert [name if name == mark else "product" for name in kept] == [mark, *layer, *layer, "product", mark]
    assert hook.read().names() == 2 * models.FORWARD


def test_training_stamps_forward_and_backward_and_changes_no_bit(hook):
    model = models.Decoder(layers=1)
    plain = torch.compile(model, fullgraph=True)
    expected = plain(tokens())
    expected.square().mean().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    torch._dynamo.reset()
    hook.install(models.PROBES + MODULES)
    picket_hook.attach(model)
    result = torch.compile(model, fullgraph=True)(tokens())
    assert torch.equal(result, expected)
    result.square().mean().backward()
    assert all(torch.equal(parameter.grad, before) for parameter, before in zip(model.parameters(), gradients))
    written = hook.read()
    forward = ["+forward", *models.LAYER, "-forward"]
    assert written.names() == [*forward, "+backward", *BACKWARD_LAYER, "-backward"]
    assert written.unpaired == []


def test_borders_inside_the_region_copy_nothing(hook):
    from torch._inductor.utils import run_and_get_code

    hook.install(models.PROBES + MODULES)
    model = models.Decoder()
    with torch.no_grad():
        _, (code,) = run_and_get_code(torch.compile(model, fullgraph=True), tokens())
    assert code.count("torch.ops.picket.mark") == len(models.FORWARD)
    kernels = [line for line in code.splitlines() if "cpp_fused_" in line and "= async_compile" in line]
    # Only the region's own input, eight token numbers, is copied.
    assert sum(line.split("(")[0].count("clone") for line in kernels) <= 1


def test_regions_of_equal_layers_are_alike(hook):
    """The numbers of borders hold no layer, so that layers compiled one by one share an artifact."""
    hook.install(models.PROBES + MODULES)
    graphs = []

    def keep(graph, _inputs):
        graphs.append(graph.code)
        return graph

    for layer in models.Decoder().layers:
        torch._dynamo.reset()
        torch.compile(layer, backend=keep, fullgraph=True)(torch.zeros(1, 2, models.WIDTH))
    assert len(graphs) == 2
    assert graphs[0] == graphs[1]


def test_the_name_of_an_op_changes_with_its_schema(hook):
    hook.install()
    mark = tracing.op_name("mark", tracing.MARK_SCHEMA)
    assert hasattr(torch.ops.picket, mark)
    assert str(getattr(torch.ops.picket, mark).default._schema).endswith(tracing.MARK_SCHEMA)
    assert tracing.op_name("mark", tracing.MARK_SCHEMA.replace("int border", "int edge")) != mark


def test_numbers_of_borders_are_the_same_in_every_process():
    from picket_hook.phases import Phase

    assert tracing.number_of(Phase("attention"), False) == 1087211399  # compiled artifacts hold it
    assert tracing.number_of(Phase("attention"), False) != tracing.number_of(Phase("attention"), True)


def test_an_artifact_with_an_unknown_border_is_counted_and_harmless(hook):
    hook.failures_expected = True
    hook.install()
    x = torch.ones(3)
    getattr(torch.ops.picket, tracing.op_name("mark", tracing.MARK_SCHEMA))(x, [], 7)
    assert torch.equal(x, torch.ones(3))
    assert "border 7 is of a probe that this process does not have" in hook.first_failure()


def test_structured_outputs_keep_their_type(hook):
    from collections import namedtuple

    Pair = namedtuple("Pair", "left right")

    class Many(torch.nn.Module):
        def forward(self, x):
            return {"pair": Pair(x + 1, [x * 2]), "none": None}

    hook.install()
    many = Many()
    picket_hook.attach(many, "mlp")
    out = torch.compile(many, fullgraph=True)(torch.ones(2))
    assert isinstance(out["pair"], Pair)
    assert torch.equal(out["pair"].left, torch.full((2,), 2.0))
    assert torch.equal(out["pair"].right[0], torch.full((2,), 2.0))
    assert hook.read().names() == ["+mlp", "-mlp"]


@pytest.mark.skipif(not TRACES_WITH, reason="this PyTorch traces no context managers of users")
def test_own_phases_and_steps_inside_a_compiled_region_do_not_break_it(hook):
    hook.install()

    def work(x):
        with picket_hook.phase("evaluation"):
            return x + 1

    assert torch.equal(torch.compile(work, fullgraph=True)(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.skipif(not hasattr(torch.library, "register_vmap"), reason="this PyTorch has no batching rules for ops")
def test_borders_pass_through_function_transforms(hook):
    hook.install(models.PROBES)
    model, x = models.Mlp(), torch.ones(3, models.WIDTH)

    def compiled(function):
        return torch.compile(function, backend="aot_eager", fullgraph=True)(x)

    assert torch.allclose(compiled(lambda y: torch.func.vmap(model)(y)), model(x))
    gradient = torch.func.grad(lambda y: model(y).sum())
    assert torch.equal(compiled(gradient), gradient(x))
    names = hook.read().names()
    assert names[:2] == names[4:6] == ["+mlp", "-mlp"]
