"""Eager training: backward passes, the optimizer, steps and data loading."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import picket_hook
from torch.utils.checkpoint import checkpoint

import models

MODULES = '[features]\nbackward = "modules"\n'
LAYER_BACKWARD = [
    "+layer_backward",
    "+mlp_backward",
    "-mlp_backward",
    "+attention_backward",
    "-attention_backward",
    "-layer_backward",
]


def tokens():
    return torch.arange(8).reshape(1, 8)


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_module_backwards_nest_inside_the_whole(hook):
    model = models.Decoder()
    model(tokens()).square().mean().backward()
    expected = gradients(model)
    model.zero_grad()
    hook.install(models.PROBES + MODULES)
    picket_hook.attach(model)
    model(tokens()).square().mean().backward()
    assert all(torch.equal(a, b) for a, b in zip(expected, gradients(model)))
    written = hook.read()
    assert written.names() == [*models.FORWARD, "+backward", *LAYER_BACKWARD, *LAYER_BACKWARD, "-backward"]
    assert written.unpaired == []


def test_branches_on_one_input_do_not_swallow_each_other(hook):
    class Parallel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.mlp = models.Attention(), models.Mlp()

        def forward(self, x):
            return x + self.attention(x) + self.mlp(x)

    hook.install(models.PROBES + MODULES)
    Parallel()(torch.ones(1, 2, models.WIDTH, requires_grad=True)).sum().backward()
    assert hook.read().names()[5:-1] == [
        "+mlp_backward",
        "-mlp_backward",
        "+attention_backward",
        "-attention_backward",
    ]


def test_operations_in_place_on_inputs_and_outputs_stay_allowed(hook):
    class InPlace(torch.nn.Module):
        def forward(self, x):
            return x.mul_(2)

    hook.install(MODULES)
    module = InPlace()
    picket_hook.attach(module, "norm")
    leaf = torch.ones(3, requires_grad=True)
    module(leaf + 0).add_(1).sum().backward()
    assert torch.equal(leaf.grad, torch.full((3,), 2.0))
    assert hook.read().unpaired == []


def test_an_input_without_gradient_flow_is_closed_by_its_parent(hook):
    class Ignores(torch.nn.Module):
        def forward(self, x, unused):
            return x * 2

    hook.install(MODULES)
    module = Ignores()
    picket_hook.attach(module, "norm")
    module(torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)).sum().backward()
    written = hook.read()
    assert written.names() == ["+norm", "-norm", "+backward", "+norm_backward", "-norm_backward", "-backward"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_forwards_are_stamped_where_they_run(hook, reentrant):
    hook.install(models.PROBES + MODULES)
    layer = models.Layer()
    x = torch.ones(1, 2, models.WIDTH, requires_grad=True)
    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
    written = hook.read()
    assert written.names().count("+layer") == 2
    assert written.unpaired == []
    again, whole = written.of("layer")[1], written.of("backward")[0]
    assert whole.start <= again.start
    assert again.end <= whole.end


def test_steps_follow_the_optimizer(hook):
    model = models.Decoder()
    hook.install()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(tokens()).sum().backward()
        optimizer.step()
    written = hook.read()
    assert [step["step"] for step in written.steps()] == [0, 1, 2]
    assert len(written.of("backward")) == len(written.of("optimizer")) == 3
    assert len(written.of("step")) == 2
    for step, work in zip(written.of("step"), written.of("optimizer")[1:]):
        assert step.start <= work.start <= work.end <= step.end
    assert written.unpaired == ["+step"]


def test_steps_of_ones_own_end_automatic_ones_and_carry_the_batch(hook):
    model = models.Decoder()
    hook.install()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with picket_hook.step(7, tokens=8, batch=1, requests=["a", "b"], prefill_tokens=6, decode_tokens=2, graph=0):
        model(tokens()).sum().backward()
        optimizer.step()
    picket_hook.step(tokens=9)
    written = hook.read()
    first, second = written.steps()
    assert (first["step"], first["tokens"], first["batch"], first["requests"], first["graph"]) == (7, 8, 1, 2, 0)
    assert (first["prefill_tokens"], first["decode_tokens"], first["context_tokens"]) == (6, 2, -1)
    assert (second["step"], second["tokens"], second["batch"]) == (8, 9, -1)
    assert [host["text"] for host in written.hosts if host["type"] == 2] == ["a", "b"]
    assert len(written.of("step")) == 1


def test_an_optimizer_that_calls_its_base_class_steps_once(hook):
    class Derived(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    hook.install()
    Derived([torch.ones(2, requires_grad=True)], lr=0.1).step()
    written = hook.read()
    assert written.names() == ["+optimizer", "-optimizer", "+step"]
    assert [step["step"] for step in written.steps()] == [0]


@pytest.mark.parametrize("workers", [0, 1])
def test_waiting_for_a_batch_is_a_phase_of_the_host(hook, workers):
    hook.install()
    batches = list(torch.utils.data.DataLoader(torch.arange(6), batch_size=2, num_workers=workers))
    assert len(batches) == 3
    written = hook.read()
    assert [span.name for span in written.spans] == ["dataload"] * 4  # the last finds the end
    assert written.fences == []


def test_own_phases_as_block_and_as_decorator(hook):
    @picket_hook.phase("evaluation")
    def evaluate():
        with picket_hook.phase("sampling", kind="compute"):
            return 5

    assert evaluate() == 5
    hook.install()
    assert evaluate() == 5
    written = hook.read()
    assert written.names() == ["+sampling", "-sampling"]
    assert len(written.of("evaluation")) == 1
