"""Programs that take more memory than there is."""

import sys
import time

import ray


def take():
    held = []
    while True:
        held.append(b"x" * 80_000_000)
        time.sleep(0.15)


def task():
    @ray.remote(max_retries=0)
    def join_tables(left, right):
        take()

    ray.get(join_tables.remote("a", "b"))


def retried():
    @ray.remote(max_retries=1)
    def build_graph(n):
        take()

    ray.get(build_graph.remote(3))


def actor():
    @ray.remote
    class ReplayBuffer:
        def fill(self):
            take()

    ray.get(ReplayBuffer.options(name="replay-3").remote().fill.remote())


def both_nodes():
    """A task on each of two nodes."""

    @ray.remote(max_retries=0, num_cpus=2)
    def shuffle_partition(i):
        take()

    ray.get([shuffle_partition.remote(0), shuffle_partition.remote(1)])


def driver():
    """The driver itself takes the memory, until the kernel kills it."""
    ray.init()
    take()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
