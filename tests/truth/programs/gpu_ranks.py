"""Data-parallel training on simulated GPUs, one for each rank; some ranks have an injected cause.

    gpu_ranks.py CAUSE --ranks N --truth FILE [--slow RANK]... [--ms MS] [--ahead]

Starts its ranks itself. Rank R writes what it measured to FILE.R. At the end of each step the ranks
reduce their gradients in a kernel of NCCL's, which runs, as there, from when the rank's own GPU gets
to it until the last rank's has, and then for as long as the transfer takes.

The simulated GPU has to know at the launch how long a kernel will run. So each rank foretells, at the
start of a step, when its GPU will get to the collective: it knows its own cause. This is off by what
the host's sleeps and launches take longer than they should.

Ranks wait for their GPU in each step, as for the loss's value; --ahead: they do not.
"""

import argparse
import mmap
import os
import struct
import tempfile
import time

import profd

import gpu
import measuring

MS = gpu.MS
CAUSES = 'none', 'compute', 'clock', 'data', 'host', 'alternating'
TRANSFER_NS = 1 * MS
KERNEL = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'
SLOTS = 64  # Steps whose foretold times are kept; ranks are never so far apart.
SLOT = struct.Struct('<qq')  # The number of the step, and a time in ns.


class Foretold:
    """When the GPU of each rank gets to the collective of a step: memory that all ranks share."""

    def __init__(self, path, rank, ranks):
        self._rank, self._ranks = rank, ranks
        with open(path, 'r+b') as file:
            self._memory = mmap.mmap(file.fileno(), self.size(ranks))

    @staticmethod
    def size(ranks):
        return ranks * SLOTS * SLOT.size

    def _offset(self, rank, step):
        return (rank * SLOTS + step % SLOTS) * SLOT.size

    def tell(self, step, time_ns):
        # The number last: it is what others look at.
        offset = self._offset(self._rank, step)
        self._memory[offset + 8:offset + 16] = struct.pack('<q', time_ns)
        self._memory[offset:offset + 8] = struct.pack('<q', step + 1)

    def last(self, step):
        """Of all ranks; waits until each has told."""
        latest = 0
        for rank in range(self._ranks):
            while True:
                told, time_ns = SLOT.unpack_from(self._memory, self._offset(rank, step))
                if told == step + 1:
                    break
                time.sleep(50e-6)
            latest = max(latest, time_ns)
        return latest


class Rank(gpu.Training):
    def __init__(self, arguments, measurement, rank):
        super().__init__(arguments, measurement)
        self._rank = rank
        self._foretold = Foretold(arguments.meeting_point, rank, arguments.ranks)
        self._free_ns = 0  # When the GPU will have done all that was launched.

    def has(self, cause, step):
        if self.arguments.cause == 'alternating':
            return cause == 'compute' and step % self.arguments.ranks == self._rank
        return self.arguments.cause == cause and self._rank in self.arguments.slow

    def launch(self, kernel, device_ns):
        self._free_ns = max(time.time_ns(), self._free_ns) + device_ns
        self.gpu.launch(kernel, device_ns)

    def wait_on_host(self):
        with self.measurement.cause():
            measuring.sleep(self.arguments.ms)

    def reduce(self, step):
        start_ns = max(time.time_ns(), self._free_ns)
        last_ns = self._foretold.last(step)
        with profd.annotate('nccl:all_reduce'):
            self.launch(KERNEL, max(0, last_ns - start_ns) + TRANSFER_NS)

    def step(self, step):
        cause_ns = int(self.arguments.ms * MS)
        on_host = self.has('data', step) or self.has('host', step)
        on_gpu = self.has('compute', step) or self.has('clock', step)
        self._foretold.tell(step, max(time.time_ns() + on_host * cause_ns, self._free_ns) +
                            self.LAYERS * self.LAYER_NS + on_gpu * cause_ns)
        with profd.annotate('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'):
            if self.has('data', step):
                self.wait_on_host()
        if self.has('host', step):
            self.wait_on_host()
        start_ns = time.time_ns()
        for layer in range(self.LAYERS):
            longer_ns = cause_ns // self.LAYERS if self.has('clock', step) else 0
            with profd.annotate('layer'):
                self.launch('layer_%d_kernel' % layer, self.LAYER_NS + longer_ns)
        if self.has('compute', step):
            with profd.annotate('extra layer'):
                self.launch('extra_kernel', cause_ns)
        if on_gpu:
            self.measurement.add(start_ns, cause_ns)
        self.reduce(step)
        if not self.arguments.ahead:
            self.gpu.sync()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--slow', type=int, action='append', default=[])
    parser.add_argument('--ms', type=float, default=6)
    parser.add_argument('--ahead', action='store_true')
    parser.add_argument('--meeting-point')
    arguments = parser.parse_args()
    if arguments.meeting_point:
        rank = int(os.environ['RANK'])
        Rank(arguments, measuring.Measurement('%s.%d' % (arguments.truth, rank)), rank).run()
        return
    with tempfile.NamedTemporaryFile() as shared:
        shared.truncate(Foretold.size(arguments.ranks))
        measuring.launch_ranks(arguments.ranks, shared.name)


if __name__ == '__main__':
    main()
