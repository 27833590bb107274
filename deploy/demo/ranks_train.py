"""One rank of a data-parallel training: as many processes as WORLD_SIZE, this one is RANK.

    PYTHONPATH=client_lib/python RANK=0 WORLD_SIZE=2 python3 deploy/demo/ranks_train.py --meet /tmp/m &
    PYTHONPATH=client_lib/python RANK=1 WORLD_SIZE=2 python3 deploy/demo/ranks_train.py --meet /tmp/m

Every rank has data of its own and the same linear model; after each batch the gradients are averaged
over all of them by way of rank 0, at the unix socket --meet, so none begins a step before all have
ended the last. --slow-ms makes this rank work longer than the others: a straggler to be found.

Needs nothing but Python. SIGTERM and the end of another rank end it with exit code 0.
"""

import argparse
import array
import os
import random
import signal
import socket
import sys
import time

import profd

BATCH = 16
LEARNING_RATE = 0.05
NOISE = 0.1


class Ranks:
    """The sockets between rank 0 and each other one."""

    def __init__(self, rank, world_size, meet):
        self.rank = rank
        self.world_size = world_size
        if rank == 0:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(meet)
                listener.listen(world_size)
                self.peers = [listener.accept()[0] for _ in range(world_size - 1)]
            os.unlink(meet)
        else:
            self.peers = [self._find(meet)]

    @staticmethod
    def _find(meet):
        deadline = time.monotonic() + 60
        while True:
            peer = socket.socket(socket.AF_UNIX)
            try:
                peer.connect(meet)
                return peer
            except (FileNotFoundError, ConnectionRefusedError):
                peer.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    @profd.annotate("all_reduce")
    def mean(self, values):
        """Of the values of all ranks, element by element. EOFError: a rank has ended."""
        if self.rank == 0:
            sums = array.array("d", values)
            for peer in self.peers:
                for i, value in enumerate(self._receive(peer, len(values))):
                    sums[i] += value
            for peer in self.peers:
                peer.sendall(sums)
        else:
            self.peers[0].sendall(array.array("d", values))
            sums = self._receive(self.peers[0], len(values))
        return [value / self.world_size for value in sums]

    @staticmethod
    def _receive(peer, count):
        values = array.array("d", bytes(8 * count))
        view = memoryview(values).cast("B")
        while view:
            got = peer.recv_into(view)
            if got == 0:
                raise EOFError
            view = view[got:]
        return values


class Training:
    def __init__(self, rank, seed, features):
        truth = random.Random(seed)
        self.features = features
        self.truth = [truth.uniform(-1, 1) for _ in range(features)]
        self.weights = [0.0] * features
        self.random = random.Random(f"{seed}/{rank}")

    @profd.annotate("load_batch")
    def batch(self):
        inputs = [[self.random.gauss(0, 1) for _ in range(self.features)] for _ in range(BATCH)]
        return inputs, [dot(row, self.truth) + self.random.gauss(0, NOISE) for row in inputs]

    def gradient(self, inputs, wanted):
        """With the loss in front."""
        with profd.annotate("forward"):
            errors = [dot(row, self.weights) - y for row, y in zip(inputs, wanted)]
        with profd.annotate("backward"):
            columns = zip(*inputs)
            gradient = [dot(column, errors) / BATCH for column in columns]
        return [dot(errors, errors) / BATCH, *gradient]

    @profd.annotate("optimizer")
    def update(self, gradient):
        self.weights = [w - LEARNING_RATE * g for w, g in zip(self.weights, gradient)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meet", required=True, metavar="SOCKET")
    parser.add_argument("--steps", type=int, default=0, help="0: until SIGTERM")
    parser.add_argument("--step-ms", type=float, default=10, help="at least, for every rank")
    parser.add_argument("--slow-ms", type=float, default=0, help="more, for this rank")
    parser.add_argument("--features", type=int, default=48, help="of the linear model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    profd.init()
    ranks = Ranks(rank, world_size, options.meet)
    training = Training(rank, options.seed, options.features)
    step = 0
    while not options.steps or step < options.steps:
        profd.step()
        began = time.monotonic()
        gradient = training.gradient(*training.batch())
        with profd.annotate("augment"):
            work_s = (options.step_ms + options.slow_ms) / 1000
            time.sleep(max(0, began + work_s - time.monotonic()))
        try:
            loss, *gradient = ranks.mean(gradient)
        except (EOFError, ConnectionError):
            return 0
        training.update(gradient)
        if rank == 0 and step % 100 == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
        step += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
