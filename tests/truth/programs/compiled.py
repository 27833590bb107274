"""Trains a small network on the CPU that torch.compile compiled, with one injected cause.

    compiled.py CAUSE --truth FILE

Graphs run as torch would run them without a compiler (backend "aot_eager"): what is looked for is
what Dynamo does around them, and a C++ compiler would take most of the time of a test.
"""

import argparse
import time

import torch
import torch._dynamo

import measuring

WIDTH = 512
BATCH = 128
DEPTH = 4


class Network(torch.nn.Module):
    """Linear layers; `scale` is a plain number, of which compiled code keeps the value."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.scale = 1
        self.eager_calls = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():  # Constant in compiled code, so not part of it.
            self.eager_calls += 1
        for layer in self.layers:
            x = torch.relu(layer(x)) * self.scale
        return x


class Training:
    """A healthy program: it compiles in its first step, and never again."""

    network = Network

    def __init__(self, measurement):
        self.measurement = measurement
        self.model = self.network()
        self.compiled = torch.compile(self.model, backend='aot_eager', dynamic=False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

    def batch(self, step):
        return BATCHES[step % len(BATCHES)]

    def before(self, step):
        """Before the forward pass."""

    def after(self, step):
        """After the optimizer's step."""

    def run(self):
        step = 0
        while True:
            x = self.batch(step)
            self.before(step)
            self.optimizer.zero_grad()
            (self.compiled(x) - x).square().mean().backward()
            self.optimizer.step()
            self.after(step)
            step += 1


BATCHES = [torch.randn(BATCH, WIDTH) for _ in range(4)]


class Compiling(Training):
    """Measures with Dynamo's own callbacks how long it compiles."""

    def __init__(self, measurement):
        super().__init__(measurement)
        handler = torch._dynamo.callback.callback_handler
        handler.register_start_callback(self._start)
        handler.register_end_callback(self._end)

    def _start(self, *_):
        self._start_ns = time.time_ns()

    def _end(self, *_):
        self.measurement.add(self._start_ns, time.time_ns() - self._start_ns)


class RecompileStorm(Compiling):
    """Each step has another batch size, and compiled code is only for one."""

    def __init__(self, measurement):
        super().__init__(measurement)
        torch._dynamo.config.cache_size_limit = 1 << 20
        torch._dynamo.config.accumulated_cache_size_limit = 1 << 20

    def batch(self, step):
        return torch.randn(2 + step % (1 << 12), WIDTH)


class RecompileLimit(Training):
    """A number that compiled code depends on changes in each step. After some recompilations torch
    gives up. The cause is the share of forward passes that are not compiled."""

    def before(self, step):
        self.model.scale = 1 + step % 1000
        self._eager_calls, self._start_ns = self.model.eager_calls, time.time_ns()

    def after(self, step):
        self.measurement.add(self._start_ns, self.model.eager_calls - self._eager_calls)


class TwoSizes(Training):
    """A healthy program: its batches have two sizes, and it compiled for both before."""

    def batch(self, step):
        return super().batch(step)[:BATCH - step % 2]


class BreakingNetwork(Network):
    """Logs a value after each layer, which Dynamo cannot trace."""

    log = None

    def forward(self, x):
        x = torch.relu(self.layers[0](x))
        self.log(x)
        x = torch.relu(self.layers[1](x))
        self.log(x)
        x = torch.relu(self.layers[2](x))
        self.log(x)
        return self.layers[3](x)


class GraphBreaks(Training):
    """Its forward pass is in pieces. The cause is how many follow a break."""

    network = BreakingNetwork

    def __init__(self, measurement):
        super().__init__(measurement)
        self.model.log = self._log

    @torch._dynamo.disable
    def _log(self, x):
        self.last = x.detach()
        self.measurement.add(time.time_ns(), 1)


CAUSES = {
    'none': Training, 'recompile-storm': RecompileStorm, 'recompile-limit': RecompileLimit,
    'graph-breaks': GraphBreaks, 'two-sizes': TwoSizes,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    CAUSES[arguments.cause](measuring.Measurement(arguments.truth)).run()


if __name__ == '__main__':
    main()
