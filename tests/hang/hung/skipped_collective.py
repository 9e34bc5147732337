"""Three ranks (RANK, MASTER_PORT): rank 1 waits for a file and never enters the second all_reduce."""

import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=3)
value = torch.ones(4)
dist.all_reduce(value)


def wait_for_shard():
    while True:
        time.sleep(3600)


def train_step():
    if dist.get_rank() == 1:
        wait_for_shard()
    dist.all_reduce(value)


print("hung from here", flush=True)
train_step()
