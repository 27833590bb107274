#!/usr/bin/env python3
"""Writes corpus/rpc, the inputs of rpc_fuzz.cc: a file NAME.bin per request below.

    tests/fuzz/make_rpc_corpus.py

Needs protoc. Run it again when a method is added: an input names its method by number. Requests are
in protobuf's text format; a list is a stream of requests.
"""
import pathlib
import re
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROTO = SOURCE / "proto"
OWN = "OWN-CAPTURE---------------"  # As in rpc_fuzz.cc.
OTHER = "OTHER-CAPTURE-------------"
GROUP = "groups/01J00000000000000000000001"
SCHEDULE = "schedules/01J00000000000000000000002"
SPEC = "spec { steps: 2 warmup_steps: 1 }"

# Name of the file, method, request.
REQUESTS = [
    ("abort_group", "AbortGroup", f'group: "{GROUP}"'),
    ("apply_schedule", "ApplySchedule",
     f'declaration {{ name: "{SCHEDULE}" version: 2 spec {{ every {{ seconds: 60 }} capture {{ steps: 1 }} }} }}'),
    ("apply_schedule_deleted", "ApplySchedule",
     f'declaration {{ name: "{SCHEDULE}" version: 3 deleted: true }} validate_only: true'),
    ("cancel", "CancelCapture", f'name: "captures/{OWN}"'),
    ("cancel_others", "CancelCapture", f'name: "captures/{OTHER}"'),
    ("close_group", "CloseGroup",
     f'group: "{GROUP}" members {{ node: "n" capture: "captures/{OWN}" pid: 1 rank: 0 state: COMPLETE }}'),
    ("commit_group", "CommitGroup", f'group: "{GROUP}" first_step: 105'),
    ("create", "CreateCapture",
     f'target: "targets/1" {SPEC} request_id: "a"'),
    ("create_with_everything", "CreateCapture",
     'target: "targets/2" spec { duration { seconds: 1 } timeout { seconds: 5 } memory_bytes: 1048576 '
     'allow_less_memory: true max_bytes: 1048576 display_name: "a" labels { key: "a" value: "b" } '
     'gpu { mode: FULL buffer_bytes: 4194304 max_records: 1000 detach: true latency: true } '
     'torch { operators: SHAPES strides: true memory: true } }'),
    ("create_by_marker", "CreateCapture",
     'target: "targets/3" spec { steps: 1 wait_steps: 3 repeat: 64 step_marker: "step" }'),
    ("create_on_others", "CreateCapture", f'target: "targets/4" {SPEC}'),
    ("create_group", "CreateCaptureGroup",
     f'targets: "targets/1" targets: "targets/2" {SPEC} request_id: "g"'),
    ("create_schedule", "CreateSchedule",
     f'name: "{SCHEDULE}" spec {{ every {{ seconds: 60 }} jitter {{ seconds: 2 }} capture {{ steps: 1 }} '
     'selector { job: "j" ranks: 0 command: "train" uid: 65534 } sample { unit: JOBS fraction: 0.5 } '
     'budget { captures_per_hour: 5 bytes_per_day: 1048576 time_share: 0.01 } '
     'governor { max_slowdown: 0.05 } nodes: "node1" pin: true }'),
    ("create_schedule_by_cron", "CreateSchedule",
     'spec { cron: "*/5 1-3 * * 1,5" capture { duration { seconds: 1 } } sample { count: 2 unit: TARGETS } }'),
    ("delete", "DeleteCapture", f'name: "captures/{OWN}"'),
    ("delete_others", "DeleteCapture", f'name: "captures/{OTHER}"'),
    ("delete_schedule", "DeleteSchedule", f'name: "{SCHEDULE}"'),
    ("download", "DownloadCapture", f'name: "captures/{OWN}" offset: 100'),
    ("download_others", "DownloadCapture", f'name: "captures/{OTHER}"'),
    ("export_chrome", "ExportTrace", f'capture: "captures/{OWN}" format: CHROME'),
    ("export_perfetto", "ExportTrace", f'capture: "captures/{OWN}" format: PERFETTO'),
    ("export_others", "ExportTrace", f'capture: "captures/{OTHER}" format: CHROME_GZ'),
    ("get", "GetCapture", f'name: "captures/{OWN}"'),
    ("get_by_prefix", "GetCapture", 'name: "captures/0"'),
    ("get_clock", "GetClock", ""),
    ("get_group", "GetCaptureGroup", f'name: "{GROUP}"'),
    ("get_node", "GetNode", ""),
    ("get_quotas", "GetQuotas", ""),
    ("get_schedule", "GetSchedule", f'name: "{SCHEDULE}"'),
    ("history_of_steps", "GetHistory", 'step_time: true since { seconds: 1 } job: "j" limit: 3'),
    ("history_of_operator", "GetHistory", 'operator_name: "op" until { seconds: 4000000000 }'),
    ("import", "ImportCapture",
     ['total_bytes: 6 request_id: "i" data: "SQL" '
      'sha256: "0000000000000000000000000000000000000000000000000000000000000000"', 'data: "ite"']),
    ("import_ends_early", "ImportCapture", ["total_bytes: 2147483648"]),
    ("list", "ListCaptures",
     'page_size: 1 filter { states: COMPLETE labels { key: "a" value: "b" } include_deleted: true }'),
    ("list_audit", "ListAudit", 'page_size: 5 since { seconds: 1 } verb: "GetNode" refused_only: true'),
    ("list_schedules", "ListSchedules", "include_deleted: true"),
    ("list_targets", "ListTargets", "page_size: 2"),
    ("list_windows", "ListScheduleWindows", f'name: "{SCHEDULE}" page_size: 1'),
    ("report_memory", "GetReport",
     f'capture: "captures/{OWN}" report: "memory" options {{ key: "max_points" value: "4" }}'),
    ("report_findings", "GetReport",
     f'capture: "captures/{OWN}" report: "findings" options {{ key: "thresholds" value: "idle.host_wait_share = 0.5" }}'),
    ("report_time", "GetReport",
     f'capture: "captures/{OWN}" report: "time" options {{ key: "launched_only" value: "1" }}'),
    ("report_ops", "GetReport",
     f'capture: "captures/{OWN}" report: "ops" options {{ key: "by_step" value: "1" }} options {{ key: "step" value: "100" }}'),
    ("pause_schedule", "PauseSchedule", f'name: "{SCHEDULE}"'),
    ("pin", "SetCapturePinned", f'name: "captures/{OWN}" pinned: true'),
    ("pin_others", "SetCapturePinned", f'name: "captures/{OTHER}" pinned: true'),
    ("prepare_group", "PrepareGroup",
     f'group: "{GROUP}" targets: "targets/1" targets: "targets/2" {SPEC} lease {{ seconds: 30 }}'),
    ("purge", "PurgeCaptures", "older_than { }"),
    ("purge_dry", "PurgeCaptures", "older_than { seconds: 5 nanos: 1 } dry_run: true"),
    ("report_kernels", "GetReport",
     f'capture: "captures/{OWN}" report: "kernels" options {{ key: "sort" value: "total" }}'),
    ("report_steps", "GetReport",
     f'capture: "captures/{OWN}" report: "steps" options {{ key: "limit" value: "1" }}'),
    ("report_of_others", "GetReport", f'capture: "captures/{OTHER}" report: "kernels"'),
    ("resolve_all", "ResolveTargets", "all: true"),
    ("resolve_pids", "ResolveTargets", "pids: 5001 pids: 5004"),
    ("resume_schedule", "ResumeSchedule", f'name: "{SCHEDULE}"'),
    ("switch_off", "SetCapturesAllowed", 'reason: "because"'),
    ("watch", "WatchCapture", f'name: "captures/{OWN}"'),
    ("watch_targets", "WatchTargets", ""),
]


def methods():
    """Returns (full name, type of the request) of each method, sorted as rpc_fuzz.cc does."""
    found = []
    for path in sorted((PROTO / "profd/v1").glob("*.proto")):
        text = path.read_text()
        for service, body in re.findall(r"^service (\w+) \{\n(.*?)^\}", text, re.S | re.M):
            for method, request in re.findall(r"^  rpc (\w+)\((?:stream )?(\w+)\)", body, re.M):
                found.append((f"profd.v1.{service}.{method}", f"profd.v1.{request}"))
    return sorted(found)


def encode(message, text):
    files = [str(path.relative_to(PROTO)) for path in sorted((PROTO / "profd/v1").glob("*.proto"))]
    return subprocess.run(["protoc", f"--proto_path={PROTO}", f"--encode={message}", *files],
                          input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def main():
    numbers = {name.rsplit(".", 1)[1]: (number, request)
               for number, (name, request) in enumerate(methods())}
    missing = numbers.keys() - {method for _, method, _ in REQUESTS}
    if missing:
        raise SystemExit(f"no request for {', '.join(sorted(missing))}")
    folder = SOURCE / "tests/fuzz/corpus/rpc"
    folder.mkdir(exist_ok=True)
    for name, method, request in REQUESTS:
        number, message = numbers[method]
        if isinstance(request, list):
            pieces = [encode(message, piece) for piece in request]
            data = b"".join(len(piece).to_bytes(2, "little") + piece for piece in pieces)
        else:
            data = encode(message, request)
        (folder / f"{name}.bin").write_bytes(bytes([number]) + data)


if __name__ == "__main__":
    main()
