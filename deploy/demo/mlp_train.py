"""mlp_train in Python: the same training as mlp_train.cc, with NumPy and the profd package.

    PYTHONPATH=client_lib/python python3 deploy/demo/mlp_train.py [--steps N] [--step-ms MS]
        [--batch N] [--loaders N] [--log-every N] [--seed N] [--quiet]

Exit code: 0 if the loss, over data it never trained on, fell; 1 if not; 2 for a wrong
command line. SIGTERM and SIGINT end it as if the last step had been reached.
"""

import argparse
import os
import queue
import signal
import sys
import threading
import time

import numpy as np

import profd

FEATURE_COUNT = 32
CLASS_COUNT = 10
LAYER_SIZES = (FEATURE_COUNT, 64, 64, CLASS_COUNT)
LEARNING_RATE = np.float32(0.02)
MOMENTUM = np.float32(0.9)
NOISE = np.float32(2.5)
BATCHES_AHEAD = 4
UNSEEN = 2**63  # The index of a batch that no loader gets to.


class Tensor:
    """An array whose memory profd hears of, from here until release()."""

    _lock = threading.Lock()
    _allocated_bytes = 0

    def __init__(self, values, category):
        self.values = np.ascontiguousarray(values, np.float32)
        self._category = category
        self._tell(profd.alloc, self.values.nbytes)

    def release(self):
        if self.values is not None:
            self._tell(profd.free, -self.values.nbytes)
            self.values = None

    def _tell(self, event, change_bytes):
        with Tensor._lock:
            Tensor._allocated_bytes += change_bytes
            event(self.values.ctypes.data, self.values.nbytes, device="cpu",
                  category=self._category, total_allocated=Tensor._allocated_bytes)


class Dataset:
    """Samples around one centre per class; batch `index` is the same for the same seed."""

    def __init__(self, seed, batch_size):
        self._seed = seed
        self._batch_size = batch_size
        self._centres = np.random.default_rng(seed).standard_normal(
            (CLASS_COUNT, FEATURE_COUNT), np.float32)

    @profd.annotate("load_batch")
    def make(self, index):
        with profd.annotate("sample"):
            random = np.random.default_rng((self._seed, index))
            labels = random.integers(CLASS_COUNT, size=self._batch_size)
            inputs = self._centres[labels] + NOISE * random.standard_normal(
                (self._batch_size, FEATURE_COUNT), np.float32)
        with profd.annotate("normalize"):
            inputs -= inputs.mean(axis=1, keepdims=True)
            inputs /= np.sqrt(inputs.var(axis=1, keepdims=True) + 1e-5)
        return Tensor(inputs, "input"), labels


class BatchLoader:
    """Has threads make batches ahead of the training thread; next() hands them out in order.

    Thread i makes the batches i, i + n, i + 2n, ... into a queue of its own.
    """

    def __init__(self, dataset, thread_count):
        self._dataset = dataset
        self._stopping = threading.Event()
        self._next = 0
        ahead = max(1, BATCHES_AHEAD // thread_count)
        self._queues = [queue.Queue(ahead) for _ in range(thread_count)]
        self._threads = [threading.Thread(target=self._work, args=(i,), name="loader-%d" % i)
                         for i in range(thread_count)]
        for thread in self._threads:
            thread.start()

    def next(self):
        batch = self._queues[self._next % len(self._queues)].get()
        self._next += 1
        return batch

    def close(self):
        self._stopping.set()
        for thread, batches in zip(self._threads, self._queues):
            for inputs, _ in iter(batches.get, None):  # It may be waiting for room.
                inputs.release()
            thread.join()

    def _work(self, thread_index):
        index = thread_index
        while not self._stopping.is_set():
            self._queues[thread_index].put(self._dataset.make(index))
            index += len(self._queues)
        self._queues[thread_index].put(None)


class Linear:
    """One linear layer, its gradients and its momentum."""

    def __init__(self, index, inputs, outputs, random):
        self._name = "layer%d" % index
        scale = np.float32(np.sqrt(2.0 / inputs))
        self._parameters = [
            Tensor(random.standard_normal((inputs, outputs), np.float32) * scale, "parameter"),
            Tensor(np.zeros((1, outputs)), "parameter")]
        self._velocities = [Tensor(np.zeros_like(parameter.values), "optimizer_state")
                            for parameter in self._parameters]
        self._gradients = []

    def forward(self, inputs, with_relu):
        weights, bias = self._parameters
        with profd.annotate(self._name + ".forward"):
            with profd.annotate("matmul"):
                outputs = inputs.values @ weights.values + bias.values
            if with_relu:
                with profd.annotate("relu"):
                    np.maximum(outputs, 0, out=outputs)
            return Tensor(outputs, "activation")

    def backward(self, inputs, output_gradient):
        with profd.annotate(self._name + ".backward"):
            gradient = output_gradient.values
            with profd.annotate("matmul"):
                self._gradients = [
                    Tensor(inputs.values.T @ gradient, "gradient"),
                    Tensor(gradient.sum(axis=0, keepdims=True), "gradient")]
                result = Tensor(gradient @ self._parameters[0].values.T, "temporary")
            output_gradient.release()
            return result

    def update(self):
        with profd.annotate(self._name + ".update"):
            for parameter, gradient, velocity in zip(self._parameters, self._gradients,
                                                     self._velocities):
                velocity.values *= MOMENTUM
                velocity.values += gradient.values
                parameter.values -= LEARNING_RATE * velocity.values
                gradient.release()


class Network:
    """Linear layers with ReLU between them, and softmax cross-entropy at the end."""

    def __init__(self, seed):
        random = np.random.default_rng(seed)
        self._layers = [Linear(i, *sizes, random)
                        for i, sizes in enumerate(zip(LAYER_SIZES, LAYER_SIZES[1:]))]

    def train_on(self, inputs, labels):
        """One step of training; the mean loss before it."""
        outputs = self._forward(inputs)
        loss, gradient = cross_entropy(outputs[-1], labels)
        self._backward(inputs, outputs, gradient)
        with profd.annotate("optimizer"):
            for layer in self._layers:
                layer.update()
        return loss

    @profd.annotate("evaluate")
    def evaluate(self, inputs, labels):
        outputs = self._forward(inputs)
        loss, gradient = cross_entropy(outputs[-1], labels)
        for tensor in outputs + [gradient]:
            tensor.release()
        return loss

    @profd.annotate("forward")
    def _forward(self, inputs):
        outputs = []
        for layer in self._layers:
            last = layer is self._layers[-1]
            outputs.append(layer.forward(outputs[-1] if outputs else inputs, not last))
        return outputs

    @profd.annotate("backward")
    def _backward(self, inputs, outputs, gradient):
        for i in reversed(range(len(self._layers))):
            if i + 1 < len(self._layers):
                with profd.annotate("relu_backward"):
                    gradient.values[outputs[i].values <= 0] = 0
            outputs[i].release()
            gradient = self._layers[i].backward(outputs[i - 1] if i else inputs, gradient)
        gradient.release()


@profd.annotate("loss")
def cross_entropy(scores, labels):
    """The mean loss, and its gradient with respect to the scores."""
    rows = np.arange(len(labels))
    shifted = np.exp(scores.values - scores.values.max(axis=1, keepdims=True))
    gradient = shifted / shifted.sum(axis=1, keepdims=True)
    loss = float(-np.log(np.maximum(gradient[rows, labels], 1e-20)).mean())
    gradient[rows, labels] -= 1
    gradient /= len(labels)
    return loss, Tensor(gradient, "temporary")


def train_one_step(loader, network):
    profd.step()
    with profd.annotate("data"):
        inputs, labels = loader.next()
    loss = network.train_on(inputs, labels)
    inputs.release()
    profd.counter("loss", loss)
    return loss


def train(options, stop, loader, network):
    """Trains until told to stop; the number of steps done."""
    losses = []
    step = 0
    while not stop.is_set() and (options.steps == 0 or step < options.steps):
        began = time.monotonic()
        losses.append(train_one_step(loader, network))
        step += 1
        if step == 1:
            print("ready pid=%d" % os.getpid(), flush=True)
        if len(losses) == options.log_every:
            if not options.quiet:
                print("step %d loss %.4f" % (step, sum(losses) / len(losses)), flush=True)
            losses.clear()
        left = began + options.step_ms / 1000 - time.monotonic()
        if left > 0:
            stop.wait(left)
    return step


def number(low, high):
    def parse(text):
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError("%d is not in %d..%d" % (value, low, high))
        return value
    return parse


def parse_options():
    parser = argparse.ArgumentParser(allow_abbrev=False, description="Trains a small network.")
    parser.add_argument("--steps", type=number(0, 2**63), default=1000,
                        help="train for this many steps; 0: until SIGTERM or SIGINT")
    parser.add_argument("--step-ms", type=number(0, 3600000), default=0,
                        help="let each step take at least this many milliseconds")
    parser.add_argument("--batch", type=number(1, 65536), default=64, help="samples per step")
    parser.add_argument("--loaders", type=number(1, 16), default=2,
                        help="threads that prepare batches")
    parser.add_argument("--log-every", type=number(1, 2**63), default=100,
                        help="print the loss every so many steps")
    parser.add_argument("--seed", type=number(0, 2**63), default=1,
                        help="of the data and the initial weights")
    parser.add_argument("--quiet", action="store_true",
                        help="do not print the loss while training")
    return parser.parse_args()


def main():
    options = parse_options()
    stop = threading.Event()
    for number_of_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number_of_signal, lambda *_: stop.set())

    profd.init()
    profd.set_metadata("job", "mlp_train.py")

    dataset = Dataset(options.seed, options.batch)
    network = Network(options.seed)
    unseen = dataset.make(UNSEEN)
    loss_before = network.evaluate(*unseen)
    loader = BatchLoader(dataset, options.loaders)
    try:
        steps = train(options, stop, loader, network)
    finally:
        loader.close()
    loss_after = network.evaluate(*unseen)
    print("loss on unseen data %.4f before, %.4f after %d steps" %
          (loss_before, loss_after, steps))
    return 0 if loss_after < loss_before else 1


if __name__ == "__main__":
    sys.exit(main())
