"""Trains a small network on the CPU, with one injected cause.

    training.py CAUSE --truth FILE [--ms MS] [--every N] [--place PLACE]

--ms is about how long the cause takes each time; the program measures how long it took. --every:
only in each Nth step. --place: before the forward pass, between the passes, or after the optimizer,
for causes that can be anywhere.
"""

import argparse
import gc
import json
import os
import socket
import subprocess
import tempfile
import threading
import time

import torch

import measuring

WIDTH = 256
BATCH = 48


class Dataset(torch.utils.data.Dataset):
    """Batches that exist already; `work` is done for each item."""

    def __init__(self, work=None):
        self._work = work

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        if self._work is not None:
            self._work()
        return BATCHES[index % len(BATCHES)]


BATCHES = [torch.randn(BATCH, WIDTH) for _ in range(4)]


class Training:

    PASSES = 1  # Forward and backward passes of a step.

    def __init__(self, arguments, measurement):
        self.arguments = arguments
        self.measurement = measurement
        self.model = self.network_of(arguments.model)
        adam = arguments.optimizer == 'adam'
        self.optimizer = (torch.optim.Adam if adam else torch.optim.SGD)(
            self.model.parameters(), lr=1e-3)

    def network_of(self, kind):
        return network(kind)

    def loader(self, work=None, workers=0, collate=None):
        return torch.utils.data.DataLoader(Dataset(work), batch_size=None if not collate else 2,
                                           num_workers=workers, collate_fn=collate)

    def batches(self):
        """Yields batches; overridden by causes that are in the loader."""
        while True:
            yield from BATCHES

    def before(self, step):
        """Before the forward pass."""

    def between(self, step):
        """Between the forward and the backward pass."""

    def after(self, step):
        """After the optimizer's step."""

    def is_due(self, step):
        return step % self.arguments.every == self.arguments.every - 1

    def run(self):
        for step, x in enumerate(self.batches()):
            if self.is_due(step):
                self.before(step)
            self.optimizer.zero_grad()
            for _ in range(self.PASSES - 1):
                (self.model(x) - x).square().mean().backward()
            loss = (self.model(x) - x).square().mean()
            self.loss = loss
            if self.is_due(step):
                self.between(step)
            loss.backward()
            self.optimizer.step()
            if self.is_due(step):
                self.after(step)


def network(kind):
    nn = torch.nn
    if kind == 'convnet':
        return nn.Sequential(nn.Unflatten(1, (1, 16, 16)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
                             nn.Conv2d(16, 1, 3, padding=1), nn.Flatten())
    if kind == 'attention':
        return nn.Sequential(nn.Unflatten(1, (4, 64)),
                             nn.TransformerEncoderLayer(64, 4, 64, batch_first=True), nn.Flatten())
    return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))


class None_(Training):
    """A healthy program."""


class HealthyLoader(Training):
    """Its loader is fast."""

    def batches(self):
        return iter(self.loader())


class Placed(Training):
    """Does work() at --place."""

    def work(self):
        raise NotImplementedError

    def _work_at(self, place):
        if self.arguments.place == place:
            with self.measurement.cause():
                self.work()

    def before(self, step):
        self._work_at('before')

    def between(self, step):
        self._work_at('between')

    def after(self, step):
        self._work_at('after')


class InBackward(torch.autograd.Function):
    """The identity, whose backward pass computes in Python."""

    @staticmethod
    def forward(ctx, x, work):
        ctx.work = work
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.work()
        return gradient, None


class Function(Training):
    """Its loss goes through an autograd.Function that is in Python."""

    def work(self):
        with self.measurement.cause():
            measuring.spin(self.arguments.ms)

    def network_of(self, kind):
        model = network(kind)

        def identity(_, __, x):
            return InBackward.apply(x, self.work)

        model.register_forward_hook(identity)
        return model


class Hook(Function):
    """A hook of a gradient computes in Python."""

    def network_of(self, kind):
        model = network(kind)
        next(model.parameters()).register_hook(lambda _: self.work())
        return model


class Python(Placed):
    """Computes in Python outside operators."""

    def work(self):
        measuring.spin(self.arguments.ms)


class ManyOptimizers(Python):
    """Has an optimizer for each of its 24 parameters, stepped as soon as the gradient is there."""

    def network_of(self, kind):
        model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(12)))
        optimizers = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

        def update(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(update)
        return model

    def run(self):
        for step, x in enumerate(self.batches()):
            loss = (self.model(x) - x).square().mean()
            self.between(step)
            loss.backward()


class Anomaly(Training):
    """Left autograd's anomaly detection on."""

    def network_of(self, kind):
        torch.autograd.set_detect_anomaly(True)
        blocks = [(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(20)]
        return torch.nn.Sequential(*(layer for block in blocks for layer in block))


class Images(Training):
    """A healthy program: its batches are of bytes, and converted once."""

    def batches(self):
        images = [torch.randint(0, 255, x.shape, dtype=torch.uint8) for x in BATCHES]
        while True:
            for x in images:
                yield x.float().div_(255)


class Sleep(Placed):
    """Waits outside operators, as for a lock server or a rate limit."""

    def work(self):
        measuring.sleep(self.arguments.ms)


class Child(Placed):
    """Runs another program and waits for it."""

    def work(self):
        subprocess.run(['sleep', str(self.arguments.ms / 1000)], check=True)


class Server(Placed):
    """Asks a server over a socket, which answers after --ms."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._socket, theirs = socket.socketpair()
        threading.Thread(target=self._serve, args=(theirs,), daemon=True).start()

    def _serve(self, theirs):
        while theirs.recv(1):
            measuring.sleep(self.arguments.ms)
            theirs.send(b'!')

    def work(self):
        self._socket.send(b'?')
        self._socket.recv(1)


class Json(Placed):
    """Writes its metrics as JSON, again and again for --ms."""

    METRICS = {'weight_%d' % i: [float(i)] * 20 for i in range(200)}

    def work(self):
        end = time.perf_counter() + self.arguments.ms / 1000
        while time.perf_counter() < end:
            json.dumps(self.METRICS)


class Heap(Placed):
    """Collects garbage in a large heap."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._heap = [[i] for i in range(int(self.arguments.ms * 25_000))]

    def work(self):
        gc.collect()


class Metrics(Training):
    """Reads every element of a small tensor into Python, in a loop."""

    def after(self, step):
        with self.measurement.cause():
            sum(abs(value) for row in self.model[0].bias.view(2, -1).tolist() for value in row
                for _ in range(int(self.arguments.ms * 20)))


class Lock(Training):
    """Waits for a lock that another thread holds most of the time."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._held = threading.Event()
        threading.Thread(target=self._hold, daemon=True).start()

    def _hold(self):
        while True:
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                self._held.set()
                measuring.sleep(self.arguments.ms)

    def between(self, step):
        with self.measurement.cause():
            self._asked.set()
            self._held.wait()
            self._held.clear()
            with self._lock:
                pass


class Disk(Training):
    """Writes to disk in each step and waits for it, for at least --ms."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._file = tempfile.TemporaryFile()

    def between(self, step):
        with self.measurement.cause():
            end = time.perf_counter() + self.arguments.ms / 1000
            while time.perf_counter() < end:
                self._file.seek(0)
                self._file.write(bytes(1 << 16))
                self._file.flush()
                os.fsync(self._file.fileno())


class Decode(Training):
    """Decodes each batch in the training process."""

    def batches(self):
        loader = iter(self.loader(work=lambda: measuring.spin(self.arguments.ms)))
        while True:
            with self.measurement.cause():
                batch = next(loader)
            yield batch


class SlowStorage(Decode):
    """Reads each batch from slow storage in the training process."""

    def batches(self):
        loader = iter(self.loader(work=lambda: measuring.sleep(self.arguments.ms)))
        while True:
            with self.measurement.cause():
                batch = next(loader)
            yield batch


class Collate(Training):
    """Collates slowly."""

    def batches(self):
        def collate(items):
            measuring.spin(self.arguments.ms)
            return items[0]
        loader = iter(self.loader(collate=collate))
        while True:
            with self.measurement.cause():
                batch = next(loader)
            yield batch


class TooFewWorkers(Training):
    """One worker, which needs longer for a batch than a step takes."""

    def batches(self):
        loader = iter(self.loader(work=lambda: measuring.sleep(self.arguments.ms), workers=1))
        while True:
            with self.measurement.cause():
                batch = next(loader)
            yield batch


class SlowBatches(Training):
    """Its storage is slow for some batches."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._read = 0

    def _work(self):
        if self.is_due(self._read):
            measuring.sleep(self.arguments.ms)
        self._read += 1

    def batches(self):
        loader = iter(self.loader(work=self._work))
        while True:
            with self.measurement.cause():
                batch = next(loader)
            yield batch


class Accumulation(Training):
    """A healthy program that accumulates gradients of several batches."""

    PASSES = 4


class Clipping(Training):
    """A healthy program that clips its gradients and changes its learning rate."""

    def between(self, step):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group['lr'] *= 0.9999


class EnoughWorkers(Training):
    """Workers that are ahead of the training, which accumulates gradients."""

    PASSES = 6

    def batches(self):
        # File descriptors would be asked for from the workers, which takes a turn of the CPU each.
        torch.multiprocessing.set_sharing_strategy('file_system')
        return iter(self.loader(work=lambda: measuring.sleep(self.arguments.ms), workers=2))


class Checkpoint(Training):
    """Saves the model in some steps."""

    def after(self, step):
        with self.measurement.cause(), tempfile.TemporaryFile() as out:
            end = time.perf_counter() + self.arguments.ms / 1000
            while time.perf_counter() < end:
                torch.save(self.model.state_dict(), out)
                out.flush()
                os.fsync(out.fileno())


class Evaluation(Training):
    """Evaluates the model in some steps."""

    def after(self, step):
        with self.measurement.cause(), torch.no_grad():
            for _ in range(int(self.arguments.ms)):
                self.model(BATCHES[0])


class Logging(Training):
    """Sends metrics to a slow server in some steps."""

    def after(self, step):
        with self.measurement.cause():
            self.loss.item()
            measuring.sleep(self.arguments.ms)


class Leak(Training):
    """Keeps one tensor of each step. --ms is its size in MiB."""

    kept = []

    def after(self, step):
        start_ns = time.time_ns()
        kept = torch.zeros(int(self.arguments.ms * (1 << 18)))
        self.kept.append(kept)
        if len(self.kept) > 400:
            self.kept.clear()
        self.measurement.add(start_ns, kept.numel() * 4)


class Autocast(Training):
    """A healthy program: autocast converts each weight once a step."""

    def run(self):
        with torch.autocast('cpu', dtype=torch.bfloat16):
            super().run()


class Convert(torch.autograd.Function):
    """Converts forward, and the gradient backward; both are the cause."""

    measurement = None

    @staticmethod
    def forward(ctx, x, dtype):
        ctx.dtype = x.dtype
        with Convert.measurement.cause():
            return x.to(dtype)

    @staticmethod
    def backward(ctx, gradient):
        with Convert.measurement.cause():
            return gradient.to(ctx.dtype), None


class Converting(torch.nn.Module):
    """Computes in two types in turn, as code does that is half converted to a smaller one."""

    COPIES = 32  # Of a batch: its activations are large, so that converting them takes a while.

    def __init__(self, times):
        super().__init__()
        self._times = times
        self._linear = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = self._linear(x).repeat(self.COPIES, 1)
        for _ in range(self._times):
            h = Convert.apply(h, torch.bfloat16)
            h = Convert.apply(h, torch.float32)
        return h.view(self.COPIES, BATCH, WIDTH).mean(0)


class Casts(Training):
    """Converts its activations to another type and back, --ms times."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        Convert.measurement = self.measurement
        self.model = Converting(int(self.arguments.ms))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)


class Contention(Training):
    """Shares one CPU with other processes that compute, --others of them. Measures for which part of
    each step the training thread was ready to run and did not run: a step that is recorded takes
    longer, and waits for longer in proportion."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        cpu = min(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpu})
        parent = os.getpid()
        for _ in range(self.arguments.others):
            if os.fork() == 0:
                while os.getppid() == parent:
                    measuring.spin(100)
                os._exit(0)

    @staticmethod
    def waited_ns():
        with open('/proc/thread-self/schedstat') as stat:
            return int(stat.read().split()[1])

    def run(self):
        self._waited_ns, self._start_ns = self.waited_ns(), time.time_ns()
        super().run()

    def after(self, step):
        waited_ns, now_ns = self.waited_ns(), time.time_ns()
        share = (waited_ns - self._waited_ns) / max(1, now_ns - self._start_ns)
        self.measurement.add(self._start_ns, share)
        self._waited_ns, self._start_ns = waited_ns, now_ns


class Oversubscription(Contention):
    """Runs each operator on --threads threads that share one CPU. Measures the same."""

    def __init__(self, arguments, measurement):
        arguments.others = 0
        super().__init__(arguments, measurement)


CAUSES = {
    'none': None_, 'fast-loader': HealthyLoader, 'enough-workers': EnoughWorkers,
    'python': Python, 'many-optimizers': ManyOptimizers, 'anomaly': Anomaly, 'images': Images,
    'function': Function, 'hook': Hook, 'sleep': Sleep, 'metrics': Metrics, 'lock': Lock, 'disk': Disk,
    'decode': Decode, 'slow-storage': SlowStorage, 'collate': Collate, 'child': Child, 'server': Server, 'json': Json,
    'slow-batches': SlowBatches, 'accumulation': Accumulation, 'clipping': Clipping,
    'too-few-workers': TooFewWorkers, 'gc': Heap, 'checkpoint': Checkpoint,
    'evaluation': Evaluation, 'logging': Logging, 'leak': Leak, 'contention': Contention,
    'autocast': Autocast, 'casts': Casts, 'oversubscription': Oversubscription,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ms', type=float, default=10)
    parser.add_argument('--every', type=int, default=1)
    parser.add_argument('--place', choices=('before', 'between', 'after'), default='between')
    parser.add_argument('--others', type=int, default=1)
    parser.add_argument('--model', choices=('mlp', 'convnet', 'attention'), default='mlp')
    parser.add_argument('--optimizer', choices=('sgd', 'adam'), default='sgd')
    parser.add_argument('--threads', type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    CAUSES[arguments.cause](arguments, measuring.Measurement(arguments.truth)).run()


if __name__ == '__main__':
    main()
