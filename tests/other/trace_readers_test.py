"""Tools of others open what we export: Perfetto's trace processor, HTA and TensorBoard's plugin.

The traces are of the demo on the CPU, as profctl exports them, and of a made-up capture with a GPU
(tests/export/write_gpu_trace.cc), whose numbers are known.

Each is made use of where it is installed (`perfetto`, `HolisticTraceAnalysis` and `torch_tb_profiler`
from PyPI), and nothing is fetched by the test: without any, or where the perfetto package, alone,
cannot get its own binary, it skips.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["PROFD_BUILD_DIR"])
BIN = BUILD / "bin"
STEPS = 5
GPU_STEPS = 6
GPU_KERNELS = GPU_STEPS * 24
# From a product of the forward to that of the backward.
OPERATOR_FLOWS = GPU_STEPS * 8


def has(module):
    return importlib.util.find_spec(module) is not None


def run(*command, env):
    return subprocess.run([str(part) for part in command], env=env, check=True, timeout=120,
                          stdout=subprocess.PIPE).stdout


def poll(what, check, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def captured(folder):
    """Captures five steps of the demo; returns the files that profctl made of them."""
    env = dict(os.environ, PROFD_SOCKET_DIR=str(folder / "run"))
    (folder / "run").mkdir(mode=0o700)
    daemon = subprocess.Popen([BIN / "profd", "--data-dir", folder / "data", "--socket-dir",
                               folder / "run"], env=env)
    demo = None
    try:
        poll("profd serves", lambda: subprocess.run(
            [BIN / "profctl", "node", "--json"], env=env, capture_output=True).returncode == 0)
        demo = subprocess.Popen([BIN / "mlp_train", "--steps", "0", "--step-ms", "20"], env=env,
                                stdout=subprocess.DEVNULL)
        poll("the demo marks steps", lambda: any(
            target["pid"] == demo.pid and target["current_step"] >= 1 for target in
            json.loads(run(BIN / "profctl", "ps", "--json", env=env))["targets"]))
        chrome, perfetto = folder / "trace.json", folder / "trace.pftrace"
        done = json.loads(run(BIN / "profctl", "trace", "--pid", demo.pid, "--steps", STEPS,
                              "-o", chrome, "--json", env=env))
        run(BIN / "profctl", "export", done["id"], "--format", "perfetto", "-o", perfetto, env=env)
        return chrome, perfetto
    finally:
        for process in (demo, daemon):
            if process:
                process.terminate()
                process.wait(30)


def gpu_traces(folder):
    chrome, perfetto = folder / "gpu.json", folder / "gpu.pftrace"
    run(BUILD / "tests" / "bin" / "write_gpu_trace", chrome, perfetto, env=None)
    return chrome, perfetto


def check_schema(perfetto):
    """By Perfetto's own schema: nothing unknown, and every flow that begins ends."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(perfetto.read_bytes())
    before = trace.ByteSize()
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == before
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    begun = [flow for event in events for flow in event.flow_ids]
    ended = [flow for event in events for flow in event.terminating_flow_ids]
    assert len(begun) == GPU_KERNELS + 3 * GPU_STEPS + OPERATOR_FLOWS, len(begun)
    assert sorted(begun) == sorted(ended)


def check_gpu_in_trace_processor(processor):
    kernels = list(processor.query("select count(*) as n from slice where category = 'kernel'"))
    assert kernels[0].n == GPU_KERNELS, kernels[0].n
    flows = list(processor.query("""
        select count(*) as n from flow
        join slice call on call.id = flow.slice_out join slice work on work.id = flow.slice_in
        where call.category glob 'cuda_runtime' and work.category = 'kernel'"""))
    assert flows[0].n == GPU_KERNELS, flows[0].n
    flows = list(processor.query("""
        select count(*) as n from flow
        join slice forward on forward.id = flow.slice_out
        join slice backward on backward.id = flow.slice_in
        where forward.name = 'aten::mm' and backward.name = 'MmBackward0'"""))
    assert flows[0].n == OPERATOR_FLOWS, flows[0].n
    # As text in Perfetto's own format, and as a list in JSON.
    inputs = list(processor.query("""
        select count(distinct slice.id) as n from slice join args using (arg_set_id)
        where slice.name = 'aten::mm' and args.flat_key glob '*Input Dims*'"""))
    assert inputs[0].n == OPERATOR_FLOWS, inputs[0].n


def check_trace_processor(files, gpu_files):
    """Returns the reason why it could not be asked, if it could not."""
    from perfetto.trace_processor import TraceProcessor
    try:
        TraceProcessor().close()
    except Exception as error:  # whatever its downloader and its start may raise
        return f"perfetto: the trace processor does not start here: {error}"
    for file in [*files, *gpu_files]:
        processor = TraceProcessor(trace=str(file))
        try:
            steps = list(processor.query(
                "select distinct name from slice where name glob 'ProfilerStep#*'"))
            wanted = GPU_STEPS if file in gpu_files else STEPS
            assert len(steps) == wanted, (file, [step.name for step in steps])
            if file in gpu_files:
                check_gpu_in_trace_processor(processor)
            errors = list(processor.query(
                "select name, value from stats where severity = 'error' and value > 0"))
            assert not errors, (file, [(error.name, error.value) for error in errors])
        finally:
            processor.close()
    return None


def check_hta(chrome):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={0: str(chrome)})
    names = set(analysis.t.symbol_table.get_sym_table())
    assert sum(name.startswith("ProfilerStep#") for name in names) == STEPS, sorted(names)


def check_gpu_in_hta(chrome):
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={0: str(chrome)})
    # It drops the last step; the GPU is busy across streams for what it says, in us.
    counted_steps = GPU_STEPS - 1
    kinds, _ = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert {"COMPUTATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY"} <= set(
        kinds["kernel_type"]), kinds
    memory = kinds[kinds["kernel_type"] == "MEMORY"]["sum"].iloc[0]
    assert memory == counted_steps * 8, memory
    launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
    assert len(launches) >= counted_steps * 24, len(launches)
    idle = analysis.get_idle_time_breakdown(visualize=False)[0]
    assert set(idle["stream"]) == {7, 20}, set(idle["stream"])
    bandwidth = analysis.get_memory_bw_summary()
    assert bandwidth["memory_bw_gbps"]["mean"].iloc[0] == 65536 / 8000, bandwidth
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    assert 0 < overlap["comp_comm_overlap_pctg"].iloc[0] <= 100, overlap
    # By these it would find operators, steps and ranges again in torch's execution trace.
    rows, names = analysis.t.get_trace(0), analysis.t.symbol_table.get_sym_table()
    events = rows[[names[cat] in ("cpu_op", "user_annotation") for cat in rows["cat"]]]
    assert len(events) and (events["external_id"] > 0).all(), events[events["external_id"] <= 0]
    assert events["external_id"].is_unique
    annotations = analysis.get_gpu_user_annotation_breakdown(visualize=False)
    assert {"forward", "backward"} <= set(annotations["name"]), annotations


def check_tensorboard(folder, chrome):
    """The plugin's own loader; returns what it made of the file."""
    from torch_tb_profiler.profiler.data import RunProfileData
    profile = RunProfileData.parse("worker", "span", str(chrome), str(folder / "cache"))
    return profile


def check_gpu_in_tensorboard(folder, chrome):
    # It drops a last step that has less GPU work than the one before; here none has.
    profile = check_tensorboard(folder, chrome)
    assert [int(step) for step in profile.steps_names] == list(range(GPU_STEPS)), profile.steps_names
    # Not has_runtime: 0.4.3 does not know the category cuda_runtime, in traces of torch neither.
    assert profile.has_kernel and profile.has_memcpy_or_memset
    assert sum(event.type == "Kernel" for event in profile.events) == GPU_KERNELS


def check_by_ourselves(files):
    """profctl check agrees that they load."""
    subprocess.run([BIN / "profctl", "check", *files], check=True, stdout=subprocess.DEVNULL)


def main():
    # The readers are libraries for whichever Python has them; ours is needed for nothing here.
    readers = [name for name in ("perfetto", "hta", "torch_tb_profiler") if has(name)]
    if not readers:
        print(f"SKIP: {sys.executable} has none of perfetto, HolisticTraceAnalysis and torch_tb_profiler")
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-readers."))
    try:
        chrome, perfetto = captured(folder)
        gpu_chrome, gpu_perfetto = gpu_traces(folder)
        check_by_ourselves([chrome, perfetto, gpu_chrome, gpu_perfetto])
        missed = None
        if "torch_tb_profiler" in readers:
            assert len(check_tensorboard(folder, chrome).steps_names) >= STEPS - 1
            check_gpu_in_tensorboard(folder, gpu_chrome)
        if "perfetto" in readers:
            check_schema(gpu_perfetto)
            missed = check_trace_processor([chrome, perfetto], [gpu_chrome, gpu_perfetto])
        if "hta" in readers:
            check_hta(chrome)
            check_gpu_in_hta(gpu_chrome)
        if missed:
            readers.remove("perfetto")
        if not readers:
            print("SKIP: " + missed)
            sys.exit(77)
        print(f"read by {' and '.join(readers)}; missed: {missed or 'nothing'}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
