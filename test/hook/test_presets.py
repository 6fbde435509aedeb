"""Every probe of every preset matches something: classes by the path that they have in their package, and for
transformers and Megatron, where installed, the real ones."""

import contextlib
import os
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import picket_hook
from picket_hook import config

# Paths as they are in transformers 5.24, Megatron-LM 0.16, vLLM and SGLang.
CLASSES = {
    "llama": ["transformers.models.llama.modeling_llama.Llama", ["Attention", "MLP", "ForCausalLM"]],
    "qwen": [
        "vllm.model_executor.models.qwen3_moe.Qwen3Moe",
        ["SparseMoeBlock", "Attention", "MLP", "ForCausalLM"],
    ],
    "mistral": ["transformers.models.mistral.modeling_mistral.Mistral", ["Attention", "MLP", "ForCausalLM"]],
    "mixtral": [
        "vllm.model_executor.models.mixtral.Mixtral",
        ["MoE", "SparseMoeBlock", "Attention", "ForCausalLM"],
    ],
    "deepseek": ["sglang.srt.models.deepseek_v2.DeepseekV2", ["MoE", "AttentionMLA", "MLP", "ForCausalLM"]],
    "gpt2": ["transformers.models.gpt2.modeling_gpt2.GPT2", ["Attention", "MLP", "LMHeadModel"]],
    "transformers": [
        "transformers.models.family.modeling_family.Family",
        ["SparseMoeBlock", "MoE", "Attention", "MLP", "ForCausalLM", "LMHeadModel"],
    ],
    "megatron": [
        "megatron.core.",
        [
            "transformer.attention.SelfAttention",
            "transformer.multi_latent_attention.MLASelfAttention",
            "transformer.moe.moe_layer.MoELayer",
            "transformer.mlp.MLP",
            "models.common.embeddings.language_model_embedding.LanguageModelEmbedding",
        ],
    ],
    "vllm": [
        "vllm.",
        [
            *("model_executor.models.mixtral.MixtralMoE", "model_executor.models.qwen3_moe.Qwen3MoeSparseMoeBlock"),
            *("model_executor.models.llama.LlamaAttention", "model_executor.models.llama.LlamaMLP"),
            *("model_executor.models.llama.LlamaForCausalLM", "v1.sample.sampler.Sampler"),
        ],
    ],
    "sglang": [
        "sglang.srt.",
        [
            *("models.mixtral.MixtralMoE", "models.qwen3_moe.Qwen3MoeSparseMoeBlock", "models.llama.LlamaMLP"),
            *("models.deepseek_v2.DeepseekV2AttentionMLA", "models.llama.LlamaForCausalLM"),
            "layers.sampler.Sampler",
        ],
    ],
}


def stand_in(path):
    """An instance of a class at this path that doubles its input."""
    module, _, name = path.rpartition(".")
    body = {"__module__": module, "__qualname__": name, "forward": lambda self, x: x * 2}
    return type(name, (torch.nn.Module,), body)()


def stand_in_function(monkeypatch, path):
    """Makes the function's module, and classes on the way to it."""
    name, _, attribute = path.partition(":")
    module = sys.modules.get(name) or types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    owner, *rest = attribute.split(".")
    if rest:
        setattr(module, owner, type(owner, (), {rest[0]: lambda self, *args: args}))
    else:
        setattr(module, owner, lambda *args: args)


def test_every_preset_has_a_stand_in():
    assert sorted(CLASSES) == config.preset_names()


@pytest.mark.parametrize("name", config.preset_names())
def test_every_probe_of_a_preset_matches(hook, monkeypatch, name):
    for probe in config.preset(name):
        if probe.function:
            stand_in_function(monkeypatch, probe.function)
    hook.install(f'presets = ["{name}"]\n')
    prefix, classes = CLASSES[name]
    for cls in classes:
        stand_in(prefix + cls)(torch.ones(1))
    matches = picket_hook.status()["probes"]
    assert matches
    assert [target for target, count in matches.items() if count == 0] == []
    assert len(hook.read().names()) == 2 * len(classes)


@pytest.mark.parametrize(
    ("preset", "family", "layer"),
    [
        ("llama", "Llama", ["attention", "mlp"]),
        ("qwen", "Qwen3", ["attention", "mlp"]),
        ("qwen", "Qwen3Moe", ["attention", "moe"]),
        ("mistral", "Mistral", ["attention", "mlp"]),
        ("mixtral", "Mixtral", ["attention", "moe"]),
        ("deepseek", "DeepseekV3", ["attention", "mlp"]),
        ("gpt2", "GPT2", ["attention", "mlp"]),
        ("transformers", "Gemma2", ["attention", "mlp"]),
        ("transformers", "Qwen3Moe", ["attention", "moe"]),
    ],
)
def test_presets_match_the_models_of_transformers(hook, preset, family, layer):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    small = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"intermediate_size": 16, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    if family == "GPT2":
        small = {"vocab_size": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
    if "Moe" in family or family == "Mixtral":
        small |= {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
    if family == "DeepseekV3":
        small |= {"head_dim": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4, "q_lora_rank": 4}
    hook.install(f'presets = ["{preset}"]\n')
    root = "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM"
    model = getattr(transformers, root)(getattr(transformers, f"{family}Config")(**small)).eval()
    with torch.no_grad():
        model(torch.arange(4).reshape(1, 4))
    names = [name for name in hook.read().names() if name.startswith("+")]
    assert names == ["+forward", *(f"+{phase}" for phase in layer * 2)]


def test_the_megatron_preset_matches_megatron(hook, monkeypatch):
    pytest.importorskip("megatron.core", reason="Megatron is not installed: pip install megatron-core")
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker
    from megatron.core.transformer.transformer_config import TransformerConfig

    monkeypatch.setattr(CudaRNGStatesTracker, "fork", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: "cpu")  # it makes a buffer there
    hook.install('presets = ["megatron"]\n')
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    try:
        settings = TransformerConfig(
            num_layers=2,
            hidden_size=16,
            num_attention_heads=2,
            use_cpu_initialization=True,
            attention_dropout=0.0,
            hidden_dropout=0.0,
        )
        model = GPTModel(settings, get_gpt_layer_local_spec(), vocab_size=32, max_sequence_length=8)
        positions = torch.arange(4).reshape(1, 4)
        mask = torch.ones(1, 1, 4, 4, dtype=torch.bool).triu(1)
        model(positions, positions, mask)
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()
    written = hook.read()
    names = [name for name in written.names() if name.startswith("+") and "_" not in name]
    assert names == ["+embedding", *["+attention", "+mlp"] * 2]
    assert '"engine":"megatron"' in written.attributes
    assert '"tp":0,"pp":0' in written.attributes


def call_step(monkeypatch, hook, preset, function, argument):
    stand_in_function(monkeypatch, function)
    hook.install(f'presets = ["{preset}"]\n')
    module, _, name = function.partition(":")
    owner, method = name.split(".")
    getattr(getattr(sys.modules[module], owner)(), method)(argument)
    written = hook.read()
    assert written.names() == ["+step", "-step"]
    return written


def test_a_step_of_vllm_tells_its_batch(hook, monkeypatch):
    batch = types.SimpleNamespace(
        num_scheduled_tokens={"a": 5, "b": 1, "c": 3},
        scheduled_spec_decode_tokens={"c": [7, 8]},
        total_num_scheduled_tokens=9,
    )
    runner = "vllm.v1.worker.gpu_model_runner:GPUModelRunner.execute_model"
    written = call_step(monkeypatch, hook, "vllm", runner, batch)
    (step,) = written.steps()
    assert (step["batch"], step["tokens"], step["prefill_tokens"], step["decode_tokens"]) == (3, 9, 5, 4)
    assert [host["text"] for host in written.hosts if "text" in host] == ["a", "b", "c"]


def test_a_step_of_sglang_tells_its_batch(hook, monkeypatch):
    mode = types.SimpleNamespace(is_decode=lambda: True)
    batch = types.SimpleNamespace(input_ids=torch.zeros(4), forward_mode=mode, batch_size=4, rids=["x"])
    runner = "sglang.srt.model_executor.model_runner:ModelRunner.forward"
    (step,) = call_step(monkeypatch, hook, "sglang", runner, batch).steps()
    assert (step["batch"], step["tokens"], step["prefill_tokens"], step["decode_tokens"]) == (4, 4, 0, 4)
    assert step["requests"] == 1


def test_an_unknown_batch_is_counted_and_the_call_goes_on(hook, monkeypatch):
    hook.failures_expected = True
    runner = "vllm.v1.worker.gpu_model_runner:GPUModelRunner.execute_model"
    stand_in_function(monkeypatch, runner)
    hook.install('presets = ["vllm"]\n')
    assert sys.modules["vllm.v1.worker.gpu_model_runner"].GPUModelRunner().execute_model(5) == (5,)
    assert "num_scheduled_tokens" in hook.first_failure()


def test_vllm_gets_a_compile_cache_of_its_own(monkeypatch, tmp_path):
    from picket_hook.engines import vllm

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("VLLM_CACHE_ROOT", raising=False)
    monkeypatch.delenv("PICKET_CONFIG", raising=False)
    try:
        vllm.register()
        first = os.environ.pop("VLLM_CACHE_ROOT")
        own = tmp_path / "own.toml"
        own.write_text("[features]\n")
        monkeypatch.setenv("PICKET_CONFIG", str(own))
        vllm.register()
        assert first.startswith(f"{tmp_path}/vllm-picket-")
        assert os.environ.pop("VLLM_CACHE_ROOT") != first
        monkeypatch.setenv("VLLM_CACHE_ROOT", "mine")
        vllm.register()
        assert os.environ["VLLM_CACHE_ROOT"] == "mine"
    finally:
        picket_hook.stop()
