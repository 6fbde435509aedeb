"""SGLang: the plugin of its newer releases, and the batch of a step."""

DEFAULT = 'presets = ["sglang"]\n'


def register():
    """Entry point of the group `sglang.srt.plugins`."""
    from .. import install_from_environment

    install_from_environment(DEFAULT)


def step_facts(_runner, forward_batch, *_args, **_kwargs):
    """Facts of ModelRunner.forward(forward_batch)."""
    tokens = len(forward_batch.input_ids)
    decode = forward_batch.forward_mode.is_decode()
    requests = getattr(forward_batch, "rids", None) or []
    return {
        "requests": list(requests),
        "batch": forward_batch.batch_size,
        "tokens": tokens,
        "decode_tokens": tokens if decode else 0,
        "prefill_tokens": 0 if decode else tokens,
    }
