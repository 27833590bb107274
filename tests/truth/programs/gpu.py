"""Trains on the simulated GPU (tests/cupti_standin), with one injected cause.

    gpu.py CAUSE --truth FILE [--ms MS] [--every N]

The host and the GPU run in real time: calls take as long as they say, and waits wait. The program
marks its steps with the Python package; the environment names the stand-in (PROFD_CUPTI_LIB).
"""

import argparse
import ctypes
import os
import threading
import time

import profd

import measuring

MS = 1_000_000
HTOD, DTOH = 1, 2


class Dim3(ctypes.Structure):
    _fields_ = [('x', ctypes.c_uint32), ('y', ctypes.c_uint32), ('z', ctypes.c_uint32)]


class Gpu:
    """The functions of sgpu.h that the programs use."""

    def __init__(self):
        u32, u64, i32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int
        pointer = ctypes.POINTER
        library = ctypes.CDLL(os.environ['PROFD_CUPTI_LIB'])
        self._functions = {}
        for name, types in {
                'init': [ctypes.c_void_p], 'default_stream': [u32, pointer(u32)],
                'stream_create': [u32, ctypes.c_int32, u32, pointer(u32)],
                'launch': [u32, ctypes.c_char_p, Dim3, Dim3, u64, u64, u32],
                'memcpy': [u32, u32, u64, i32, i32],
                'malloc': [u32, u64, i32, pointer(u64)], 'free': [u32, u64, i32],
                'event_record': [u32, pointer(u32)], 'event_sync': [u32],
                'stream_wait_event': [u32, u32], 'stream_sync': [u32],
                'device_sync': [u32], 'set': [ctypes.c_char_p, ctypes.c_char_p],
                'graph_begin': [u32], 'graph_end': [u32, pointer(u32)],
                'graph_instantiate': [u32, pointer(u32)], 'graph_launch': [u32, u32, u64]}.items():
            function = library['sgpu_' + name]
            function.argtypes = types
            self._functions[name] = function
        self.call('init', None)
        self.stream = self.made('default_stream', 1)
        self.second_stream = self.made('stream_create', 1, 0, 1)

    def call(self, name, *arguments):
        result = self._functions[name](*arguments)
        if result != 0:
            raise RuntimeError('sgpu_%s gave %d' % (name, result))

    def made(self, name, *arguments, integer=ctypes.c_uint32):
        out = integer(0)
        self.call(name, *arguments, ctypes.byref(out))
        return out.value

    def launch(self, kernel, device_ns, api_ns=0, stream=None):
        self.call('launch', self.stream if stream is None else stream, kernel.encode(),
                  Dim3(1024, 1, 1), Dim3(256, 1, 1), int(device_ns), int(api_ns), 0)

    def sync(self):
        self.call('stream_sync', self.stream)


class Training:
    """Four layers of 2 ms. The host is some steps ahead of the GPU, as in a job that never waits."""

    LAYERS = 4
    LAYER_NS = 2 * MS
    STEPS_AHEAD = 4

    def __init__(self, arguments, measurement):
        self.arguments = arguments
        self.measurement = measurement
        self.gpu = Gpu()
        self._events = []

    def is_due(self, step):
        return step % self.arguments.every == self.arguments.every - 1

    def layer(self, name):
        self.gpu.launch(name, self.LAYER_NS)

    def step(self, step):
        for i in range(self.LAYERS):
            with profd.annotate('layer'):
                self.layer('layer_kernel')

    def stay_ahead(self):
        self._events.append(self.gpu.made('event_record', self.gpu.stream))
        if len(self._events) > self.STEPS_AHEAD:
            self.gpu.call('event_sync', self._events.pop(0))

    def run(self):
        profd.init()
        step = 0
        while True:
            profd.step()
            self.step(step)
            self.stay_ahead()
            step += 1


class Saturated(Training):
    """The GPU always has work."""


class Replay(Training):
    """One CUDA graph for each step."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gpu.call('graph_begin', self.gpu.stream)
        super().step(0)
        graph = self.gpu.made('graph_end', self.gpu.stream)
        self._graph = self.gpu.made('graph_instantiate', graph)

    def step(self, step):
        self.gpu.call('graph_launch', self._graph, self.gpu.stream, 0)


class HiddenCommunication(Training):
    """All-reduces on a second stream, while the GPU computes."""

    def layer(self, name):
        super().layer(name)
        self.gpu.launch('ncclDevKernel_AllReduce_Sum_f32_RING_LL', self.LAYER_NS // 2,
                        stream=self.gpu.second_stream)


class HiddenCopies(Training):
    """Copies of pinned memory on a second stream, while the GPU computes."""

    def layer(self, name):
        super().layer(name)
        self.gpu.call('memcpy', self.gpu.second_stream, HTOD, 16 << 20, 1, 1)


class Sync(Training):
    """Waits for the GPU after each layer and computes in Python before it launches the next. The
    cause is the time beyond the layer's kernel, in which the GPU has nothing to do."""

    def layer(self, name):
        start_ns = time.time_ns()
        super().layer(name)
        self.gpu.sync()
        measuring.spin(self.arguments.ms)
        self.measurement.add(start_ns, max(0, time.time_ns() - start_ns - self.LAYER_NS))


class LaunchBound(Training):
    """Kernels of 5 us that take 25 us to launch; --ms of them. The cause is what the launches take
    beyond the kernels."""

    def step(self, step):
        start_ns = time.time_ns()
        count = int(self.arguments.ms * MS / 25_000)
        with profd.annotate('optimizer'):
            for _ in range(count):
                self.gpu.launch('tiny_kernel', 5_000, api_ns=25_000)
        self.measurement.add(start_ns, time.time_ns() - start_ns - count * 5_000)


class Slowly(Training):
    """Launches each layer --ms of Python after the one before; a layer takes 1 ms."""

    LAYER_NS = MS

    def layer(self, name):
        start_ns = time.time_ns()
        measuring.spin(self.arguments.ms)
        super().layer(name)
        self.measurement.add(start_ns, max(0, time.time_ns() - start_ns - self.LAYER_NS))


class BlockingCopies(Training):
    """Copies from pageable memory and waits for each. The cause is the copies' time, which follows
    from their size."""

    def layer(self, name):
        start_ns = time.time_ns()
        self.gpu.call('memcpy', self.gpu.stream, HTOD, int(self.arguments.ms * 25_000_000), 0, 0)
        self.measurement.add(start_ns, self.arguments.ms * MS)
        super().layer(name)
        self.gpu.sync()


class ExposedCopies(Training):
    """Copies pinned memory in the stream that computes. The cause is the copies' time, which follows
    from their size."""

    def layer(self, name):
        start_ns = time.time_ns()
        self.gpu.call('memcpy', self.gpu.stream, HTOD, int(self.arguments.ms * 25_000_000), 1, 1)
        self.measurement.add(start_ns, self.arguments.ms * MS)
        super().layer(name)


class ExposedCommunication(Training):
    """All-reduces in the stream that computes; --ms each."""

    KERNEL = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'

    def layer(self, name):
        super().layer(name)
        start_ns = time.time_ns()
        self.gpu.launch(self.KERNEL, self.arguments.ms * MS)
        self.measurement.add(start_ns, self.arguments.ms * MS)


class SlowLoader(Training):
    """Waits for the next batch for longer than the GPU has work. The cause is the time beyond."""

    def step(self, step):
        start_ns = time.time_ns()
        with profd.annotate('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'):
            measuring.sleep(self.arguments.ms)
        waited_ns = time.time_ns() - start_ns
        self.measurement.add(start_ns, max(0, waited_ns - self.LAYERS * self.LAYER_NS))
        super().step(step)


class HostWork(Training):
    """Computes on the host, in a range that launches nothing, for longer than the GPU has work. The
    cause is the time beyond."""

    def step(self, step):
        start_ns = time.time_ns()
        with profd.annotate('augment'):
            measuring.spin(self.arguments.ms)
        worked_ns = time.time_ns() - start_ns
        self.measurement.add(start_ns, max(0, worked_ns - self.LAYERS * self.LAYER_NS))
        super().step(step)


class ReadsLoss(Training):
    """Never waits, but for the loss of every --every steps: the GPU always has work."""

    STEPS_AHEAD = 1000

    def step(self, step):
        super().step(step)
        if self.is_due(step):
            self.gpu.sync()


class SyncOfStep(Training):
    """Waits for the GPU once in each step, as for the loss's value, and computes in Python before it
    launches the next step. The cause is the time after the wait, in which the GPU has nothing to do."""

    def wait(self):
        self.gpu.sync()

    def step(self, step):
        super().step(step)
        self.wait()
        with self.measurement.cause():
            measuring.spin(self.arguments.ms)


class ItemOfStep(SyncOfStep):
    """As before, but waits in a copy of 4 bytes to pageable memory, as .item() does."""

    def wait(self):
        self.gpu.call('memcpy', self.gpu.stream, DTOH, 4, 1, 0)
        self.gpu.sync()


class DeviceSync(Sync):
    """Waits for the whole device after each layer."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gpu.sync = lambda: self.gpu.call('device_sync', 1)


class Sleepily(Slowly):
    """Waits without computing before each launch, as for a rate limit."""

    def wait(self):
        measuring.sleep(self.arguments.ms)

    def layer(self, name):
        start_ns = time.time_ns()
        self.wait()
        Training.layer(self, name)
        self.measurement.add(start_ns, max(0, time.time_ns() - start_ns - self.LAYER_NS))


class Locked(Sleepily):
    """Waits before each launch for a lock that another thread holds."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._lock = threading.Lock()
        self._asked, self._held = threading.Event(), threading.Event()
        threading.Thread(target=self._hold, daemon=True).start()

    def _hold(self):
        while True:
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                self._held.set()
                measuring.sleep(self.arguments.ms)

    def wait(self):
        self._asked.set()
        self._held.wait()
        self._held.clear()
        with self._lock:
            pass


class SlowReplay(Replay):
    """Replays its graph, and computes in Python for longer than the GPU needs for it. The cause is
    the time beyond the graph."""

    def step(self, step):
        start_ns = time.time_ns()
        measuring.spin(self.arguments.ms)
        super().step(step)
        self.measurement.add(
            start_ns, max(0, time.time_ns() - start_ns - self.LAYERS * self.LAYER_NS))


class ReplayLoader(Replay):
    """Replays its graph, and waits for the next batch for longer than the GPU needs for it."""

    def step(self, step):
        start_ns = time.time_ns()
        with profd.annotate('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__'):
            measuring.spin(self.arguments.ms)
        waited_ns = time.time_ns() - start_ns
        self.measurement.add(start_ns, max(0, waited_ns - self.LAYERS * self.LAYER_NS))
        super().step(step)


class Unfused(Training):
    """An optimizer that launches elementwise kernels of 4 us for each parameter; a launch takes
    20 us. The cause is what the launches take beyond the kernels."""

    def step(self, step):
        start_ns = time.time_ns()
        count = int(self.arguments.ms * MS / 20_000)
        with profd.annotate('Optimizer.step#SGD.step'):
            for _ in range(count):
                self.gpu.launch('void at::native::vectorized_elementwise_kernel<4, '
                                'at::native::CUDAFunctor_add<float>>', 4_000, api_ns=20_000)
        self.measurement.add(start_ns, time.time_ns() - start_ns - count * 4_000)


class BlockingDtoh(Training):
    """Copies results to pageable memory and waits for each."""

    KIND, ASYNC, PINNED = DTOH, 0, 0

    def layer(self, name):
        Training.layer(self, name)
        start_ns = time.time_ns()
        self.gpu.call('memcpy', self.gpu.stream, self.KIND, int(self.arguments.ms * 25_000_000),
                      self.ASYNC, self.PINNED)
        self.measurement.add(start_ns, self.arguments.ms * MS)


class ExposedDtoh(BlockingDtoh):
    """Copies results to pinned memory in the stream that computes."""

    ASYNC, PINNED = 1, 1


class PageableCopies(BlockingDtoh):
    """Asynchronous copies from pageable memory in the stream that computes."""

    KIND, ASYNC, PINNED = HTOD, 1, 0


class ExposedAllGather(ExposedCommunication):
    """All-gathers in the stream that computes."""

    KERNEL = 'ncclDevKernel_AllGather_RING_LL'


class ExposedReduceScatter(ExposedCommunication):
    """Reduce-scatters in the stream that computes."""

    KERNEL = 'ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL'


class CommunicationAtEnd(Training):
    """One all-reduce at the end of each step, which takes --ms."""

    def step(self, step):
        super().step(step)
        start_ns = time.time_ns()
        self.gpu.launch('ncclDevKernel_AllReduce_Sum_f32_RING_LL', self.arguments.ms * MS)
        self.measurement.add(start_ns, self.arguments.ms * MS)


class Checkpoint(Training):
    """Waits for the GPU and writes a checkpoint in some steps."""

    def step(self, step):
        super().step(step)
        if self.is_due(step):
            self.gpu.sync()
            with profd.annotate('checkpoint'), self.measurement.cause():
                measuring.sleep(self.arguments.ms)


class AllocationChurn(Training):
    """Allocates and frees device memory in each layer, --ms each time. The cause is the time beyond
    the layer's kernel, in which the GPU has nothing to do."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gpu.call('set', b'allocation_us', b'%d' % int(self.arguments.ms * 1000))

    def layer(self, name):
        start_ns = time.time_ns()
        address = self.gpu.made('malloc', self.gpu.stream, 64 << 20, 0, integer=ctypes.c_uint64)
        super().layer(name)
        self.gpu.call('free', self.gpu.stream, address, 0)
        self.measurement.add(start_ns, max(0, time.time_ns() - start_ns - self.LAYER_NS))


class Casts(Training):
    """Converts the inputs and the result of each layer to another type, as autocast does; --ms each
    time. The cause is the conversions' time."""

    PRODUCT = 'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64'
    CONVERSION = ('void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda'
                  '(at::TensorIteratorBase&)::{lambda()#3}>')

    def convert(self):
        start_ns = time.time_ns()
        with profd.annotate('aten::to'), profd.annotate('aten::_to_copy'), \
                profd.annotate('aten::copy_'):
            self.gpu.launch(self.CONVERSION, self.arguments.ms * MS)
        self.measurement.add(start_ns, self.arguments.ms * MS)

    def layer(self, name):
        with profd.annotate('aten::linear'):
            for _ in range(3):
                self.convert()
            with profd.annotate('aten::addmm'):
                self.gpu.launch(self.PRODUCT, self.LAYER_NS)


class WrittenOutAttention(Training):
    """Attention as its formula is written: two products, and between them scaling and a softmax,
    --ms together, which a fused kernel does not have. The cause is what is between."""

    def between(self, op, kernel, ms):
        start_ns = time.time_ns()
        with profd.annotate(op):
            self.gpu.launch(kernel, ms * MS)
        self.measurement.add(start_ns, ms * MS)

    def product(self):
        with profd.annotate('aten::bmm'):
            self.gpu.launch(Casts.PRODUCT, self.LAYER_NS // 2)

    def layer(self, name):
        self.product()
        self.between('aten::div', 'void at::native::vectorized_elementwise_kernel<4, '
                     'at::native::BUnaryFunctor<float, float, float, DivFunctor<float>>>',
                     self.arguments.ms / 2)
        self.between('aten::_softmax', 'void softmax_warp_forward<float, float, float, 10, false>',
                     self.arguments.ms / 2)
        self.product()


class FusedAttention(Training):
    """Healthy: one kernel for each attention."""

    def layer(self, name):
        with profd.annotate('aten::_scaled_dot_product_flash_attention'):
            self.gpu.launch('void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, '
                            '64, 4, false, false, cutlass::bfloat16_t>>', self.LAYER_NS)


class Leak(Training):
    """Keeps one block of each step. --ms is its size in MiB."""

    _allocated = 1 << 30
    _address = 1 << 32

    def step(self, step):
        super().step(step)
        size = int(self.arguments.ms * (1 << 20))
        self._allocated += size
        self._address += size
        start_ns = time.time_ns()
        profd.alloc(self._address, size, device='cuda:0', category='activation',
                    total_allocated=self._allocated, total_reserved=self._allocated)
        self.measurement.add(start_ns, size)


class Steady(Leak):
    """Frees in each step what it allocated."""

    def step(self, step):
        size = 256 << 20
        self._address += size
        profd.alloc(self._address, size, device='cuda:0', category='activation',
                    total_allocated=self._allocated + size, total_reserved=2 * self._allocated)
        Training.step(self, step)
        profd.free(self._address, size, device='cuda:0', category='activation',
                   total_allocated=self._allocated, total_reserved=2 * self._allocated)


class Fragmentation(Training):
    """The allocator has reserved most of the GPU's memory and uses --ms percent of that. The cause is
    the part that it does not use."""

    CAPACITY = 80 << 30
    RESERVED_SHARE = 0.8
    _address = 1 << 32

    def step(self, step):
        size = 64 << 20
        reserved = int(self.CAPACITY * self.RESERVED_SHARE)
        used = int(reserved * self.arguments.ms / 100)
        self._address += size
        start_ns = time.time_ns()
        profd.alloc(self._address, size, device='cuda:0', category='activation',
                    total_allocated=used, total_reserved=reserved)
        self.measurement.add(start_ns, self.share(used, reserved))
        super().step(step)
        profd.free(self._address, size, device='cuda:0', category='activation',
                   total_allocated=used - size, total_reserved=reserved)

    def share(self, used, reserved):
        return (reserved - used) / reserved


class NearLimit(Fragmentation):
    """Uses nearly all of the GPU's memory. The cause is the part of it that is reserved."""

    RESERVED_SHARE = 0.96

    def share(self, used, reserved):
        return reserved / self.CAPACITY


CAUSES = {
    'saturated': Saturated, 'replay': Replay, 'hidden-communication': HiddenCommunication,
    'hidden-copies': HiddenCopies, 'steady-memory': Steady, 'sync': Sync,
    'launch-bound': LaunchBound, 'slow-launches': Slowly,
    'blocking-copies': BlockingCopies, 'exposed-copies': ExposedCopies,
    'exposed-communication': ExposedCommunication, 'slow-loader': SlowLoader,
    'host-work': HostWork, 'reads-loss': ReadsLoss,
    'checkpoint': Checkpoint, 'allocation-churn': AllocationChurn, 'leak': Leak,
    'fragmentation': Fragmentation, 'near-limit': NearLimit, 'step-sync': SyncOfStep,
    'item': ItemOfStep, 'device-sync': DeviceSync, 'sleep': Sleepily, 'lock': Locked,
    'slow-replay': SlowReplay, 'replay-loader': ReplayLoader, 'unfused': Unfused,
    'blocking-dtoh': BlockingDtoh, 'exposed-dtoh': ExposedDtoh, 'pageable': PageableCopies,
    'all-gather': ExposedAllGather, 'reduce-scatter': ExposedReduceScatter,
    'all-reduce-at-end': CommunicationAtEnd, 'casts': Casts,
    'written-out-attention': WrittenOutAttention, 'fused-attention': FusedAttention,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('cause', choices=CAUSES)
    parser.add_argument('--truth', required=True)
    parser.add_argument('--ms', type=float, default=2)
    parser.add_argument('--every', type=int, default=1)
    arguments = parser.parse_args()
    CAUSES[arguments.cause](arguments, measuring.Measurement(arguments.truth)).run()


if __name__ == '__main__':
    main()
