"""vLLM: the general plugin, and the batch of a step. Loaded in every process of vLLM, before it builds its model."""

import os
import zlib
from pathlib import Path

CONFIG_VARIABLE = "PICKET_CONFIG"
DEFAULT = 'presets = ["vllm"]\n'


def register():
    """Entry point of the group `vllm.general_plugins`."""
    from .. import install_from_environment

    if install_from_environment(DEFAULT):
        _own_compile_cache()


def _own_compile_cache():
    """vLLM's compile cache does not know of probes: without a root of its own a graph without them may be loaded."""
    if "VLLM_CACHE_ROOT" in os.environ:
        return
    path = os.environ.get(CONFIG_VARIABLE)
    text = Path(path).read_text(encoding="utf-8") if path else DEFAULT
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    os.environ["VLLM_CACHE_ROOT"] = str(Path(base) / f"vllm-picket-{zlib.crc32(text.encode()):08x}")


def step_facts(_runner, scheduler_output, *_args, **_kwargs):
    """Facts of GPUModelRunner.execute_model(scheduler_output).

    A request that is given one token beside its speculated ones is in decode.
    """
    scheduled = scheduler_output.num_scheduled_tokens
    speculated = getattr(scheduler_output, "scheduled_spec_decode_tokens", None) or {}
    decode = sum(tokens for request, tokens in scheduled.items() if tokens == 1 + len(speculated.get(request, ())))
    total = scheduler_output.total_num_scheduled_tokens
    return {
        "requests": list(scheduled),
        "batch": len(scheduled),
        "tokens": total,
        "decode_tokens": decode,
        "prefill_tokens": total - decode,
    }
