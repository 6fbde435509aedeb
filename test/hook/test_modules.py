import copy
import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import picket_hook

import models

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))


def tokens():
    return torch.arange(8).reshape(1, 8)


def test_class_patterns_stamp_nested_modules_in_order(hook):
    hook.install(models.PROBES)
    models.Decoder()(tokens())
    written = hook.read()
    assert written.names() == models.FORWARD
    assert written.unpaired == []


def test_a_model_built_before_is_wrapped_by_attach(hook):
    model = models.Decoder()
    hook.install(models.PROBES)
    picket_hook.attach(model)
    model(tokens())
    assert hook.read().names() == models.FORWARD


def test_attach_makes_a_class_without_a_probe_the_phase_asked_for(hook):
    hook.install()
    picket_hook.attach(models.Decoder(), "prefill")(tokens())
    assert hook.read().names() == ["+prefill", "-prefill"]


def test_a_subclass_is_not_taken_for_the_class_that_it_calls(hook):
    hook.install('[[probes]]\nmodule = "*.Layer"\nphase = "layer"\n')

    class Sub(models.Layer):
        pass

    models.Layer()(torch.zeros(1, 2, models.WIDTH))
    Sub()(torch.zeros(1, 2, models.WIDTH))
    assert hook.read().names() == ["+layer", "-layer"]


def test_a_phase_inside_itself_counts_once(hook):
    probe = '[[probes]]\nmodule = "models.{}"\nphase = "forward"\n'
    hook.install(probe.format("Decoder") + probe.format("Layer"))
    models.Decoder()(tokens())
    assert hook.read().names() == ["+forward", "-forward"]


def test_stop_restores_classes_and_outputs_are_bit_identical(hook):
    forward = models.Attention.forward
    model = models.Decoder()
    expected = model(tokens())
    hook.install(models.PROBES)
    picket_hook.attach(model)
    assert models.Attention.forward is not forward
    assert torch.equal(model(tokens()), expected)
    hook.read()
    assert models.Attention.forward is forward


def test_an_exception_of_the_engine_passes_and_ends_the_phase(hook):
    hook.install(models.PROBES)
    with pytest.raises(RuntimeError, match="shape"):
        models.Attention()(torch.zeros(1, 2, models.WIDTH + 1))
    assert hook.read().names() == ["+attention", "-attention"]


def test_a_probed_module_can_be_scripted_traced_and_copied(hook):
    model = models.Mlp()
    x = torch.ones(2, models.WIDTH)
    expected = model(x)
    hook.install(models.PROBES)
    picket_hook.attach(model)
    for other in (
        torch.jit.script(model),
        torch.jit.trace(model, x),
        torch.fx.symbolic_trace(model),
        pickle.loads(pickle.dumps(copy.deepcopy(model))),
    ):
        assert torch.equal(other(x), expected)


@pytest.mark.skipif(TORCH < (2, 7), reason="in 2.4 an export makes later compilations run composite operators twice")
def test_a_probed_module_can_be_exported(hook):
    model = models.Mlp()
    x = torch.ones(2, models.WIDTH)
    expected = model(x)
    hook.install(models.PROBES)
    picket_hook.attach(model)
    assert torch.equal(torch.export.export(model, (x,)).module()(x), expected)
