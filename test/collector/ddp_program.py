"""One of two training processes (DDP over gloo) with the hook: `python ddp_program.py RANK PORT STEPS SLOW_FROM WHERE`.

From step SLOW_FROM on rank 1 sleeps in its forward pass or its loader: WHERE is forward or loader.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

RANK, PORT, STEPS, SLOW_FROM = (int(argument) for argument in sys.argv[1:5])
WHERE = sys.argv[5]
SLOW_SECONDS = 0.02


def is_slow(step):
    return RANK == 1 and step >= SLOW_FROM


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS

    def __getitem__(self, step):
        if WHERE == "loader" and is_slow(step):
            time.sleep(SLOW_SECONDS)
        return torch.ones(64, 256)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
        self.slow = False

    def forward(self, x):
        if self.slow:
            time.sleep(SLOW_SECONDS)
        return self.layers(x)


def main():
    import picket_hook

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT), RANK=str(RANK), WORLD_SIZE="2")
    torch.set_num_threads(1)
    picket_hook.install()
    dist.init_process_group("gloo")
    net = picket_hook.attach(Net())
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.DataLoader(Samples(), batch_size=None)
    for step, batch in enumerate(data):
        net.slow = WHERE == "forward" and is_slow(step)
        picket_hook.step(step, tokens=len(batch))
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
