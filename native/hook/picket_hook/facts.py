"""What is known of the job and of this rank, for the segment's attributes."""

import json
import os
import socket
import sys

from .failures import FAILURES

MAX_BYTES = 2047
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_MEGATRON_RANKS = {
    "dp": "get_data_parallel_rank",
    "tp": "get_tensor_model_parallel_rank",
    "pp": "get_pipeline_model_parallel_rank",
    "ep": "get_expert_model_parallel_rank",
}


def attributes(given):
    """JSON text of at most MAX_BYTES bytes: `given` (from the configuration and describe()) over what is found here.

    Keys: job, run, rank, world_size, local_rank, host, engine, engine_version, model, dp, tp, pp, ep, stage.
    """
    facts = {"host": socket.gethostname(), **_from_environment(), **_from_torch(), **_from_megatron(), **given}
    text = _compact(facts)
    if len(text.encode()) > MAX_BYTES:
        FAILURES.note("attributes", f"longer than {MAX_BYTES} bytes; only job, run, rank and host are kept")
        text = _compact({key: facts[key] for key in ("job", "run", "rank", "host") if key in facts})
    return text


def _compact(facts):
    return json.dumps({key: value for key, value in facts.items() if value is not None}, separators=(",", ":"))


def _from_environment():
    value = os.environ.get
    rank = next((value(name) for name in _RANK_VARIABLES if value(name)), None)
    return {
        "job": value("PICKET_JOB") or value("TORCHELASTIC_RUN_ID") or value("SLURM_JOB_ID") or "default",
        "run": value("PICKET_RUN") or value("TORCHELASTIC_RESTART_COUNT"),
        "rank": _number(rank) or 0,
        "world_size": _number(value("WORLD_SIZE")),
        "local_rank": _number(value("LOCAL_RANK")),
    }


def _number(text):
    return int(text) if text and text.isdecimal() else None


def _from_torch():
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}


def _from_megatron():
    parallel = sys.modules.get("megatron.core.parallel_state")
    if parallel is None or not parallel.model_parallel_is_initialized():
        return {}
    facts = {"engine": "megatron"}
    for key, getter in _MEGATRON_RANKS.items():
        try:
            facts[key] = getattr(parallel, getter)()
        except (AttributeError, AssertionError):
            continue  # this release or this run has no such dimension
    facts["stage"] = facts.get("pp")
    return facts
