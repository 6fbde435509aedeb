"""What is known of the job and of this rank, for the segment's attributes."""

import json
import os
import socket
import sys

from .failures import FAILURES, contained
from .groups import Groups

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

    Keys: job, run, rank, world_size, local_rank, host, engine, engine_version, model, dp, tp, pp, ep, stage, groups.
    Of the groups as many as there is room for, small ones first.
    """
    facts = {"host": socket.gethostname(), **_from_environment(), **_from_torch(), **_from_megatron(), **given}
    text = _compact(facts)
    if len(text.encode()) > MAX_BYTES:
        FAILURES.note("attributes", f"longer than {MAX_BYTES} bytes; only job, run, rank and host are kept")
        facts = {key: facts[key] for key in ("job", "run", "rank", "host") if key in facts}
        text = _compact(facts)
    groups = {}
    for name, ranks in sorted((_groups() or {}).items(), key=lambda item: len(item[1])):
        groups[name] = ranks
        longer = _compact({**facts, "groups": groups})
        if len(longer.encode()) > MAX_BYTES:
            break
        text = longer
    return text


def _compact(facts):
    return json.dumps({key: value for key, value in facts.items() if value is not None}, separators=(",", ":"))


def _from_environment():
    value = os.environ.get
    rank = next((value(name) for name in _RANK_VARIABLES if value(name)), None)
    return {
        "job": value("PICKET_JOB") or _launched_as(value("TORCHELASTIC_RUN_ID")) or value("SLURM_JOB_ID"),
        "run": value("PICKET_RUN"),
        "rank": _number(rank) or 0,
        "world_size": _number(value("WORLD_SIZE")),
        "local_rank": _number(value("LOCAL_RANK")),
    }


def _launched_as(name):
    return None if name == "none" else name  # torchrun's word for jobs without a name


def _number(text):
    return int(text) if text and text.isdecimal() else None


def _distributed():
    """torch.distributed where it is in use."""
    module = sys.modules.get("torch.distributed")
    return module if module is not None and module.is_available() and module.is_initialized() else None


def _from_torch():
    distributed = _distributed()
    if distributed is None:
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}


@contained
def _groups():
    distributed = _distributed()
    if distributed is None:
        return {}
    names = Groups(distributed)
    known = distributed.distributed_c10d._world.pg_map
    return {names.name(group): sorted(distributed.get_process_group_ranks(group)) for group in known}


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
