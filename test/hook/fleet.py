"""Two training processes on gloo, for test_distributed.py: `python fleet.py SCENARIO RANK PORT DIRECTORY`."""

import os
import sys
import time

import torch
import torch.distributed as dist

SLOW_RANK, SLOW_SECONDS, STEPS = 1, 0.05, 8


class Net(torch.nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.first, self.second, self.slow = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), slow

    def forward(self, x):
        if self.slow:
            time.sleep(SLOW_SECONDS)
        return self.second(self.first(x).relu())


def train(rank):
    """Data parallel; one rank is slow in its forward pass."""
    import picket_hook

    torch.manual_seed(0)
    model = picket_hook.attach(Net(rank == SLOW_RANK))
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.randn(4 * STEPS, 64), batch_size=4)
    for step, batch in enumerate(data):
        picket_hook.step(step, tokens=batch.shape[0])
        ddp(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().sum().item() for parameter in model.parameters()]


def collectives(rank):
    """Every collective that gloo has, in one way or another; then what the program saw."""
    x = torch.full((4,), float(rank))
    dist.all_reduce(x)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    dist.all_gather([torch.empty(4), torch.empty(4)], x)
    dist.all_gather_into_tensor(torch.empty(8), x)
    dist.broadcast(tensor=x, src=0)
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(4))
    dist.all_to_all_single(torch.empty(4), x)
    dist.barrier()
    pair = dist.new_group([0, 1], group_desc="TENSOR_MODEL_PARALLEL_GROUP")
    alone = dist.new_group([0])
    dist.all_reduce(x, group=pair)
    if rank == 0:
        dist.all_reduce(x, group=alone)
        dist.send(x, 1)
        dist.recv(x, src=1)
    else:
        dist.recv(x, 0)
        dist.send(x, dst=0)
    peer = 1 - rank
    batch = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, torch.empty(4), peer)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    from torch.distributed import _functional_collectives as functional

    return (functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD) + 0).tolist()


def compiled(rank):
    """A collective inside a compiled region."""

    def work(x):
        dist.all_reduce(x)
        return x + 1

    return torch.compile(work, fullgraph=True, backend="aot_eager")(torch.ones(2)).tolist()


def custom_hook(rank):
    """A communication hook of the user's own, registered as one would without Picket."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model.register_comm_hook(None, allreduce_hook)
    model(torch.ones(2, 4)).sum().backward()
    return model.module.weight.grad.tolist()


def calls(rank):
    """All of the above in one pair of processes."""
    return [collectives(rank), compiled(rank), custom_hook(rank)]


def main():
    scenario, rank, port, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2", PICKET_DIR=directory)
    torch.set_num_threads(1)
    import picket_hook

    picket_hook.install()
    dist.init_process_group("gloo")
    result = globals()[scenario](rank)
    status = picket_hook.status()
    dist.destroy_process_group()
    print(repr({"result": result, **status}))


if __name__ == "__main__":
    main()
