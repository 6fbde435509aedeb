"""What the hook knows of single engines."""

from . import sglang, vllm


def _next_step(*_args, **_kwargs):
    return {}


# By `steps` of a probe: takes the arguments of the probed call, which is one step, and gives those of Steps.begin().
STEP_FACTS = {"next": _next_step, "sglang": sglang.step_facts, "vllm": vllm.step_facts}
