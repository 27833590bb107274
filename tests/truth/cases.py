"""The table of known causes. To add a case, add a row, and where needed a cause to a program.

Each row: its name, the program with its arguments, the findings of which one has to be first, how to
read the size of the cause per step from that finding, and what else is true of the program.
"""

import dataclasses
from typing import Callable, Optional, Tuple


def saving(finding):
    return finding['saving_ns_per_step']


def value(finding):
    return finding['value']


TRACED_STEPS = 20  # As many as `trace` has unless a case says otherwise.
STEPS_BEFORE = 25  # So that the slow-down through recording can be judged.


def per_traced_step(finding):
    return finding['value'] / TRACED_STEPS


def copying(finding):
    """How long the copies take. What pinned memory would save of it is less."""
    if finding['rule'] == 'COPY_EXPOSED':
        return finding['saving_ns_per_step']
    return sum(row['duration_ns'] for row in finding['evidence']) / TRACED_STEPS


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    program: str                            # A file of programs/, and its arguments.
    finds: Tuple[str, ...] = ()             # Empty: a healthy program.
    size: Optional[Callable[[dict], float]] = saving  # Of the finding: ns or bytes per step; None: the
                                                      # program cannot know the cause's size.
    allowed: Tuple[str, ...] = ()           # Findings that are true as well.
    trace: str = '--steps 20'               # Flags of `profctl trace`.
    ranks: int = 0                          # Not 0: judged by `profctl stragglers`.
    slow: Tuple[int, ...] = ()              # The ranks that have the cause; empty: none.
    more: str = ''                          # Part of what has to be said of the first of them.
    bytes: bool = False                     # The size is in bytes.
    share: bool = False                     # The size is a share, 0..1.
    number: bool = False                    # The size is a number.
    short: bool = False                     # Also in the short form.
    before: int = STEPS_BEFORE              # Steps that are marked before the capture.
    known_miss: str = ''                    # What is reported instead of what is right.
    torch: Tuple[int, int] = (0, 0)         # The oldest PyTorch that it runs on.

    @property
    def is_control(self):
        return not self.finds and not self.slow

    @property
    def needs_torch(self):
        return not self.program.startswith(('gpu.py', 'gpu_ranks.py'))


OUTSIDE = ('HOST_BOUND',)
INPUT = ('INPUT_BOUND',)
# Also true of a program whose cause takes far longer in some steps, as other load makes it.
OUTLIER = ('STEP_OUTLIER',)
# Recording makes steps of many small operators a third longer, which is reported where it is certain.
SLOWED = ('QUALITY_PERTURBATION',)
LAUNCHES = ('SMALL_KERNELS', 'IDLE_HOST_WAIT', 'CUDA_GRAPH')
# What follows from an idle GPU: how much, in which pieces, and that the host launches late.
IDLE = ('GPU_UNDERUSED', 'GPU_GAP', 'IDLE_OTHER', 'IDLE_HOST_WAIT')
# Before this, torch.compile's functions are named otherwise.
COMPILES = (2, 6)
# True of every program that runs next to busy processes.
AROUND = ('CPU_CONTENTION',)
PAGEABLE = ('MEMCPY_PAGEABLE_ASYNC', 'COPY_EXPOSED')
# The host is some steps ahead of the GPU: work launched before the window runs in it.
AHEAD = ('QUALITY_ORPHANS',)

CASES = (
    # ---- healthy programs ----
    Case('healthy: MLP', 'training.py none', short=True),
    Case('healthy: convolutions', 'training.py none --model convnet'),
    Case('healthy: attention', 'training.py none --model attention', allowed=SLOWED),
    Case('healthy: Adam', 'training.py none --optimizer adam'),
    Case('healthy: with memory', 'training.py none', trace='--steps 20 --with memory'),
    Case('healthy: fast DataLoader', 'training.py fast-loader'),
    Case('healthy: enough workers', 'training.py enough-workers --ms 1'),
    Case('healthy: GPU saturated', 'gpu.py saturated', allowed=AHEAD, short=True),
    Case('healthy: GPU, graph replay', 'gpu.py replay',
         allowed=AHEAD + ('QUALITY_LOSS',), short=True),
    Case('healthy: GPU, reads the loss now and then', 'gpu.py reads-loss --every 10',
         trace='--steps 20', allowed=AHEAD),
    Case('healthy: GPU, hidden communication', 'gpu.py hidden-communication', allowed=AHEAD),
    Case('healthy: GPU, hidden copies', 'gpu.py hidden-copies', allowed=AHEAD),
    Case('healthy: GPU, steady memory', 'gpu.py steady-memory', trace='--steps 20 --with memory',
         allowed=AHEAD),
    Case('healthy: convolutions, Adam', 'training.py none --model convnet --optimizer adam'),
    Case('healthy: attention, Adam', 'training.py none --model attention --optimizer adam',
         allowed=SLOWED),
    Case('healthy: gradient accumulation', 'training.py accumulation'),
    Case('healthy: gradient clipping', 'training.py clipping'),
    Case('healthy: batches of bytes, Adam', 'training.py images --optimizer adam'),
    Case('healthy: GPU saturated, memory', 'gpu.py saturated', trace='--steps 20 --with memory',
         allowed=AHEAD),
    Case('healthy: autocast', 'training.py autocast'),
    Case('healthy: GPU, fused attention', 'gpu.py fused-attention', allowed=AHEAD),
    Case('healthy: GPU, a few conversions', 'gpu.py casts --ms 0.03', allowed=AHEAD),
    Case('healthy: compiled', 'compiled.py none', torch=COMPILES),
    Case('healthy: compiled for two sizes', 'compiled.py two-sizes', torch=COMPILES),
    # ---- torch.compile ----
    Case('recompile storm', 'compiled.py recompile-storm', ('RECOMPILES',), allowed=OUTLIER,
         torch=COMPILES),
    Case('recompile limit', 'compiled.py recompile-limit', ('RECOMPILE_LIMIT',), size=value,
         share=True, allowed=OUTSIDE + OUTLIER, torch=COMPILES),
    Case('graph breaks', 'compiled.py graph-breaks', ('GRAPH_BREAKS',), size=per_traced_step,
         number=True, allowed=OUTSIDE + OUTLIER, torch=COMPILES),
    # ---- between operators, on the CPU ----
    Case('Python between operators', 'training.py python --ms 40', OUTSIDE,
         allowed=OUTLIER, short=True),
    Case('Python, an optimizer for each parameter', 'training.py many-optimizers --ms 40', OUTSIDE,
         allowed=OUTLIER, torch=(2, 1), before=250),  # Its first calls are steps each.
    Case('anomaly detection left on', 'training.py anomaly', ('ANOMALY_MODE',), size=None,
         allowed=OUTSIDE + SLOWED),
    Case('sleep between operators', 'training.py sleep --ms 40', OUTSIDE,
         allowed=OUTLIER, short=True),
    Case('Python in an autograd.Function', 'training.py function --ms 40', OUTSIDE,
         allowed=OUTLIER),
    Case('Python in a hook of a gradient', 'training.py hook --ms 40', OUTSIDE, allowed=OUTLIER),
    Case('Python before the forward pass', 'training.py python --ms 30 --place before', OUTSIDE,
         allowed=OUTLIER),
    Case('Python after the optimizer', 'training.py python --ms 30 --place after', OUTSIDE,
         allowed=OUTLIER),
    Case('Python, convolutions', 'training.py python --ms 60 --model convnet', OUTSIDE,
         allowed=OUTLIER),
    Case('Python, attention', 'training.py python --ms 60 --model attention', OUTSIDE,
         allowed=OUTLIER),
    Case('sleep before the forward pass', 'training.py sleep --ms 20 --place before', OUTSIDE,
         allowed=OUTLIER),
    Case('sleep after the optimizer', 'training.py sleep --ms 80 --place after', OUTSIDE,
         allowed=OUTLIER),
    Case('another program in each step', 'training.py child --ms 30 --place after', OUTSIDE,
         allowed=OUTLIER),
    Case('a slow server in each step', 'training.py server --ms 30', OUTSIDE, allowed=OUTLIER),
    Case('metrics as JSON', 'training.py json --ms 30 --place after', OUTSIDE, allowed=OUTLIER),
    Case('garbage collection in each step', 'training.py gc --ms 4', OUTSIDE, allowed=OUTLIER),
    Case('metrics in Python', 'training.py metrics --ms 60', OUTSIDE, allowed=OUTLIER),
    Case('lock contention', 'training.py lock --ms 40', OUTSIDE, allowed=OUTLIER),
    Case('slow disk in the step', 'training.py disk --ms 40', OUTSIDE, allowed=OUTLIER),
    # ---- data loading ----
    Case('decoding in the training process', 'training.py decode --ms 20', INPUT,
         allowed=OUTLIER, short=True),
    Case('slow storage', 'training.py slow-storage --ms 20', INPUT, allowed=OUTLIER, short=True),
    Case('slow collate', 'training.py collate --ms 20', INPUT, allowed=OUTLIER, short=True),
    Case('too few workers', 'training.py too-few-workers --ms 40', INPUT,
         allowed=OUTLIER, short=True),
    Case('decoding, convolutions', 'training.py decode --ms 40 --model convnet', INPUT,
         allowed=OUTLIER),
    Case('decoding, attention', 'training.py decode --ms 40 --model attention', INPUT,
         allowed=OUTLIER),
    Case('slower storage', 'training.py slow-storage --ms 60', INPUT, allowed=OUTLIER),
    Case('slower collate', 'training.py collate --ms 40', INPUT, allowed=OUTLIER),
    Case('GPU waits longer for data', 'gpu.py slow-loader --ms 30', INPUT,
         allowed=IDLE + AHEAD + OUTLIER),
    Case('GPU waits for data', 'gpu.py slow-loader --ms 14', INPUT, allowed=IDLE + AHEAD + OUTLIER,
         short=True),
    # ---- single slow steps ----
    Case('garbage collection', 'training.py gc --every 8 --ms 100', OUTLIER, allowed=OUTSIDE),
    Case('checkpoints', 'training.py checkpoint --every 8 --ms 200', OUTLIER, allowed=OUTSIDE),
    Case('evaluation', 'training.py evaluation --every 8 --ms 40', OUTLIER),
    Case('logging', 'training.py logging --every 8 --ms 200', OUTLIER, allowed=OUTSIDE),
    Case('slow server in some steps', 'training.py server --every 8 --ms 200', OUTLIER,
         allowed=OUTSIDE),
    Case('another program in some steps', 'training.py child --every 8 --ms 200', OUTLIER,
         allowed=OUTSIDE),
    Case('Python in some steps', 'training.py python --every 5 --ms 150', OUTLIER, allowed=OUTSIDE),
    # With or without the loader's waits, these steps are slow.
    Case('slow batches', 'training.py slow-batches --every 8 --ms 200', OUTLIER + INPUT,
         allowed=OUTLIER + INPUT),
    Case('GPU, checkpoints', 'gpu.py checkpoint --every 16 --ms 100', OUTLIER, trace='--steps 40',
         allowed=IDLE + AHEAD + OUTSIDE + ('SYNC_API', 'HOST_WORK')),
    # ---- the host and the GPU ----
    Case('synchronization per layer', 'gpu.py sync --ms 0.6', ('SYNC_API',),
         allowed=IDLE + OUTSIDE + OUTLIER, short=True),
    Case('launch-bound', 'gpu.py launch-bound --ms 5', LAUNCHES,
         allowed=IDLE + LAUNCHES + ('TINY_KERNELS_OF_OP', 'IDLE_KERNEL_WAIT') + OUTSIDE +
         OUTLIER, short=True),
    Case('Python before launches', 'gpu.py slow-launches --ms 2.5', ('IDLE_HOST_WAIT',) + OUTSIDE,
         allowed=IDLE + AHEAD + OUTSIDE + OUTLIER, short=True),
    Case('work on the host in a range of its own', 'gpu.py host-work --ms 14', ('HOST_WORK',),
         allowed=IDLE + AHEAD + OUTSIDE + OUTLIER),
    Case('synchronization per step', 'gpu.py step-sync --ms 4', ('SYNC_API',),
         allowed=IDLE + OUTSIDE + OUTLIER),
    Case('.item() per step', 'gpu.py item --ms 4', ('SYNC_API',),
         allowed=IDLE + OUTSIDE + OUTLIER),
    Case('device synchronization per layer', 'gpu.py device-sync --ms 1', ('SYNC_API',),
         allowed=IDLE + OUTSIDE + OUTLIER),
    Case('sleep before launches', 'gpu.py sleep --ms 2.5', ('IDLE_HOST_WAIT',) + OUTSIDE,
         allowed=IDLE + AHEAD + OUTSIDE + OUTLIER),
    Case('lock before launches', 'gpu.py lock --ms 2.5', ('IDLE_HOST_WAIT',) + OUTSIDE,
         allowed=IDLE + AHEAD + OUTSIDE + OUTLIER),
    Case('Python before a graph replay', 'gpu.py slow-replay --ms 14',
         ('IDLE_HOST_WAIT',) + OUTSIDE,
         allowed=IDLE + AHEAD + OUTSIDE + OUTLIER + ('QUALITY_LOSS',)),
    Case('graph replay waits for data', 'gpu.py replay-loader --ms 14', INPUT,
         allowed=IDLE + AHEAD + OUTLIER + ('QUALITY_LOSS',)),
    Case('unfused optimizer', 'gpu.py unfused --ms 5', LAUNCHES + ('TINY_KERNELS_OF_OP',),
         allowed=IDLE + LAUNCHES + ('TINY_KERNELS_OF_OP', 'IDLE_KERNEL_WAIT') + OUTSIDE + OUTLIER),
    Case('launch-bound, long step', 'gpu.py launch-bound --ms 15', LAUNCHES,
         allowed=IDLE + LAUNCHES + ('TINY_KERNELS_OF_OP', 'IDLE_KERNEL_WAIT') + OUTSIDE + OUTLIER),
    # ---- kernels ----
    Case('conversions', 'gpu.py casts --ms 0.5', ('CASTS',), allowed=AHEAD),
    Case('conversions, a longer step', 'gpu.py casts --ms 1.5', ('CASTS',), allowed=AHEAD),
    Case('conversions on the CPU', 'training.py casts --ms 24', ('CASTS',), allowed=OUTLIER),
    Case('attention written out', 'gpu.py written-out-attention --ms 1', ('UNFUSED_ATTENTION',),
         allowed=AHEAD),
    Case('attention written out, long', 'gpu.py written-out-attention --ms 3',
         ('UNFUSED_ATTENTION',), allowed=AHEAD),
    # ---- copies and communication ----
    Case('blocking copies to the host', 'gpu.py blocking-dtoh --ms 1',
         ('MEMCPY_SYNC', 'COPY_EXPOSED'), allowed=IDLE + ('MEMCPY_SYNC', 'COPY_EXPOSED', 'SYNC_API')),
    Case('exposed copies to the host', 'gpu.py exposed-dtoh --ms 0.7', ('COPY_EXPOSED',),
         allowed=AHEAD),
    Case('asynchronous copies from pageable memory', 'gpu.py pageable --ms 1',
         PAGEABLE, size=copying, allowed=AHEAD + PAGEABLE + ('MEMCPY_SYNC',)),
    Case('exposed all-gather', 'gpu.py all-gather --ms 1.5', ('COMM_EXPOSED',), allowed=AHEAD),
    Case('exposed reduce-scatter', 'gpu.py reduce-scatter --ms 0.5', ('COMM_EXPOSED',),
         allowed=AHEAD),
    Case('all-reduce at the end of the step', 'gpu.py all-reduce-at-end --ms 5', ('COMM_EXPOSED',),
         allowed=AHEAD),
    Case('blocking copies', 'gpu.py blocking-copies --ms 2', ('MEMCPY_SYNC', 'COPY_EXPOSED'),
         allowed=IDLE + ('MEMCPY_SYNC', 'COPY_EXPOSED', 'SYNC_API'), short=True),
    Case('exposed copies', 'gpu.py exposed-copies --ms 1', ('COPY_EXPOSED',), allowed=AHEAD,
         short=True),
    Case('exposed communication', 'gpu.py exposed-communication --ms 1', ('COMM_EXPOSED',),
         allowed=AHEAD, short=True),
    # ---- memory ----
    Case('GPU memory, small leak', 'gpu.py leak --ms 2', ('MEM_LEAK',), size=value, bytes=True,
         trace='--steps 20 --with memory', allowed=AHEAD),
    Case('fragmentation', 'gpu.py fragmentation --ms 40', ('MEM_FRAG',), size=value, share=True,
         trace='--steps 20 --with memory', allowed=AHEAD),
    Case('memory near its limit', 'gpu.py near-limit --ms 95', ('MEM_NEAR_LIMIT',), size=value,
         share=True, trace='--steps 20 --with memory', allowed=AHEAD),
    Case('GPU memory leak', 'gpu.py leak --ms 8', ('MEM_LEAK',), size=value, bytes=True,
         trace='--steps 20 --with memory', allowed=AHEAD, short=True),
    Case('CPU memory leak', 'training.py leak --ms 2', ('MEM_LEAK',), size=value, bytes=True,
         trace='--steps 20 --with memory'),
    Case('allocations in each layer', 'gpu.py allocation-churn --ms 2', ('ALLOC_CHURN',),
         allowed=IDLE + AHEAD + OUTLIER),
    # ---- other processes ----
    Case('more threads than CPUs', 'training.py oversubscription --threads 8',
         ('CPU_CONTENTION',), size=value, share=True, allowed=OUTLIER, trace='--steps 100'),
    Case('CPU shared with another process', 'training.py contention', ('CPU_CONTENTION',),
         size=value, share=True, allowed=OUTLIER, short=True),
    Case('CPU shared with three processes', 'training.py contention --others 3',
         ('CPU_CONTENTION',), size=value, share=True, allowed=OUTLIER),
    # ---- ranks ----
    Case('2 ranks, balanced', 'ranks.py none --ranks 2', ranks=2),
    Case('3 ranks, balanced', 'ranks.py none --ranks 3', ranks=3),
    Case('4 ranks, balanced', 'ranks.py none --ranks 4', ranks=4),
    Case('8 ranks, balanced', 'ranks.py none --ranks 8', ranks=8),
    Case('3 ranks, late start', 'ranks.py late-start --ranks 3 --slow 1', ranks=3),
    Case('3 ranks, alternating', 'ranks.py alternating --ranks 3', ranks=3),
    Case('2 ranks, 1 slow by compute', 'ranks.py compute --ranks 2 --slow 1', ranks=2, slow=(1,),
         more='extra work'),
    Case('3 ranks, 1 slow by compute', 'ranks.py compute --ranks 3 --slow 1', ranks=3, slow=(1,),
         more='extra work'),
    Case('3 ranks, 1 slow by data', 'ranks.py data --ranks 3 --slow 2', ranks=3, slow=(2,),
         more='its data loader'),
    Case('4 ranks, 1 slow by compute', 'ranks.py compute --ranks 4 --slow 2', ranks=4, slow=(2,),
         more='extra work'),
    Case('4 ranks, 1 slow by data', 'ranks.py data --ranks 4 --slow 0', ranks=4, slow=(0,),
         more='its data loader'),
    Case('2 ranks, 0 slow by data', 'ranks.py data --ranks 2 --slow 0', ranks=2, slow=(0,),
         more='its data loader'),
    Case('3 ranks, 0 slow by compute', 'ranks.py compute --ranks 3 --slow 0', ranks=3, slow=(0,),
         more='extra work'),
    Case('4 ranks, 3 slow by data', 'ranks.py data --ranks 4 --slow 3 --ms 60', ranks=4, slow=(3,),
         more='its data loader'),
    Case('8 ranks, 2 slow by data', 'ranks.py data --ranks 8 --slow 2 --slow 5 --ms 60', ranks=8,
         slow=(2, 5), more='its data loader'),
    Case('4 ranks, 2 slow by varying work', 'ranks.py varying --ranks 4 --slow 2', ranks=4,
         slow=(2,), more='extra work'),
    Case('2 ranks, 1 slow by varying work', 'ranks.py varying --ranks 2 --slow 1', ranks=2,
         slow=(1,), more='extra work'),
    Case('4 ranks, 1 slow in every third step', 'ranks.py third --ranks 4 --slow 1 --ms 58', ranks=4,
         slow=(1,), more='outside operators'),
    Case('3 ranks, 0 slow in every third step', 'ranks.py third --ranks 3 --slow 0 --ms 58', ranks=3,
         slow=(0,), more='outside operators'),
    Case('4 stages, balanced', 'pipeline.py none --ranks 4', ranks=4),
    Case('4 stages, 1 slow', 'pipeline.py compute --ranks 4 --slow 1', ranks=4, slow=(1,),
         more='on its host'),
    Case('4 stages, 3 slow', 'pipeline.py compute --ranks 4 --slow 3', ranks=4, slow=(3,),
         more='on its host'),
    Case('2 stages, 0 slow', 'pipeline.py compute --ranks 2 --slow 0', ranks=2, slow=(0,),
         more='on its host'),
    # ---- ranks with a GPU each, and NCCL ----
    Case('2 GPU ranks, balanced', 'gpu_ranks.py none --ranks 2', ranks=2),
    Case('4 GPU ranks, balanced', 'gpu_ranks.py none --ranks 4', ranks=4),
    Case('4 GPU ranks, balanced, ahead', 'gpu_ranks.py none --ranks 4 --ahead', ranks=4),
    Case('3 GPU ranks, alternating', 'gpu_ranks.py alternating --ranks 3', ranks=3),
    Case('2 GPU ranks, 1 slow by compute', 'gpu_ranks.py compute --ranks 2 --slow 1', ranks=2,
         slow=(1,), more='extra_kernel'),
    Case('4 GPU ranks, 2 slow by compute', 'gpu_ranks.py compute --ranks 4 --slow 2', ranks=4,
         slow=(2,), more='extra_kernel'),
    Case('4 GPU ranks, 2 slow by compute, ahead', 'gpu_ranks.py compute --ranks 4 --slow 2 --ahead',
         ranks=4, slow=(2,), more='extra_kernel'),
    Case('4 GPU ranks, 3 slow by its clock', 'gpu_ranks.py clock --ranks 4 --slow 3', ranks=4,
         slow=(3,), more='nearly all kernels take longer'),
    Case('4 GPU ranks, 3 slow by its clock, ahead', 'gpu_ranks.py clock --ranks 4 --slow 3 --ahead',
         ranks=4, slow=(3,), more='nearly all kernels take longer'),
    Case('4 GPU ranks, 0 slow by data', 'gpu_ranks.py data --ranks 4 --slow 0', ranks=4, slow=(0,),
         more='its data loader'),
    Case('3 GPU ranks, 1 slow by its host', 'gpu_ranks.py host --ranks 3 --slow 1', ranks=3,
         slow=(1,), more='outside operators'),
    Case('8 GPU ranks, 2 slow by compute', 'gpu_ranks.py compute --ranks 8 --slow 2 --slow 5',
         ranks=8, slow=(2, 5), more='extra_kernel'),
)

# True of a program with autocast and small batches, which also pays for being recorded.
AMP = AHEAD + OUTLIER + ('CASTS', 'QUALITY_PERTURBATION')
LATE = IDLE + LAUNCHES  # True where the host launches late, for whatever reason.

# On a real GPU, in tests/gpu. `--ms` is such that the GPU has nothing left to do meanwhile.
CUDA = (
    Case('healthy: large batches', 'real_gpu.py large', allowed=AHEAD),
    Case('healthy: large products', 'real_gpu.py large-matmul', allowed=AHEAD + ('LOW_WAVES',)),
    # The GPU of these is idle for a part of each step, as the host launches late: true, and no cause.
    Case('a small transformer', 'real_gpu.py none', allowed=LATE + AMP),
    Case('a small transformer, compiled', 'real_gpu.py compiled', allowed=LATE + AMP),
    Case('a small transformer, in graphs', 'real_gpu.py graphs', allowed=IDLE + AMP),
    Case('small products', 'real_gpu.py matmul', LAUNCHES, size=None,
         allowed=LATE + OUTSIDE + AMP + ('SYNC_API', 'LOW_WAVES')),
    Case('many small layers', 'real_gpu.py many-small', LAUNCHES, size=None,
         allowed=LATE + OUTSIDE + AMP + ('LOW_WAVES', 'TINY_KERNELS_OF_OP', 'TC_UNUSED')),
    Case('Python between steps', 'real_gpu.py python --ms 20', OUTSIDE, allowed=LATE + AMP),
    Case('a sleep for each batch', 'real_gpu.py slow-data --ms 30', OUTSIDE + INPUT,
         allowed=LATE + AMP),
    Case('decoding in the training process', 'real_gpu.py loader --ms 30', INPUT,
         allowed=LATE + OUTSIDE + AMP),
    # The copy waits for the GPU, but the host is ahead again before the GPU has run dry.
    Case('healthy: batches from pageable memory', 'real_gpu.py unpinned',
         allowed=IDLE + AMP + ('SYNC_API',)),
    Case('.item() for each gradient', 'real_gpu.py items', ('SYNC_API',), size=None,
         allowed=LATE + AMP),
    Case('output to the host', 'real_gpu.py readback',
         ('MEMCPY_SYNC', 'MEMCPY_PAGEABLE', 'MEMCPY_PAGEABLE_ASYNC'), size=copying,
         allowed=LATE + AMP + PAGEABLE + ('MEMCPY_SYNC', 'SYNC_API')),
    Case('large copies from pageable memory', 'real_gpu.py pageable',
         ('MEMCPY_SYNC', 'MEMCPY_PAGEABLE', 'MEMCPY_PAGEABLE_ASYNC'), size=copying,
         allowed=LATE + AMP + PAGEABLE + ('MEMCPY_SYNC', 'SYNC_API')),
    Case('attention written out', 'real_gpu.py written-out', ('UNFUSED_ATTENTION',), size=None,
         trace='--steps 20 --with memory', allowed=LATE + AMP),
    Case('attention written out, larger batches', 'real_gpu.py large-written-out',
         ('UNFUSED_ATTENTION',), size=None, allowed=LATE + AMP),
    Case('unfused optimizer', 'real_gpu.py unfused', LAUNCHES + ('TINY_KERNELS_OF_OP',), size=None,
         allowed=LATE + AMP + ('TINY_KERNELS_OF_OP',)),
    Case('GPU memory leak', 'real_gpu.py leak', ('MEM_LEAK',), size=value, bytes=True,
         trace='--steps 20 --with memory', allowed=LATE + AMP),
)
