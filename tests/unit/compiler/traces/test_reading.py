"""Every format of traces, by its content."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from compiler.traces.reading import read_columns, read_trace
from compiler.traces.trace import Trace, TraceError

SWF = """; MaxNodes: 64
; MaxProcs: 128
; Queue:  1  batch
  1  100 -1  50  4 -1 -1  -1  60 -1 -1  7 1 -1  1 -1 -1 -1
  2   90 -1  20  4 -1 -1   8  -1 -1 -1  7 1 -1 -1 -1 -1 -1
  3  110 -1  -1  4 -1 -1   8  -1 -1 -1  7 1 -1 -1 -1 -1 -1
"""
BATSIM = {
    "nb_res": 32,
    "jobs": [
        {"id": 1, "subtime": 4.5, "res": 2, "walltime": 30, "profile": "short"},
        {"id": "w!2", "subtime": 1, "res": 4, "profile": "short"},
        {"id": 3, "subtime": 1, "res": 4, "profile": "parallel"},
    ],
    "profiles": {"short": {"type": "delay", "delay": 12.5}, "parallel": {"type": "parallel", "cpu": []}},
}
PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,2951.0,6214e9
"""
KALOS = """job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
a,u1,2,16,Pretrain,COMPLETED,2023-07-01 00:00:00+08:00,2023-07-01 00:01:00+08:00,2023-07-01 00:02:00+08:00,60,5,960
b,u2,1,0,Other,RUNNING,2023-07-01 00:00:30+08:00,,,,1,0
"""
OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,460,V100M16|T4,LS,Running,0,150,50
"""
SACCT = """JobID|User|Partition|Submit|Start|End|Elapsed|Timelimit|AllocTRES|NNodes|State
77|amy|gpu|2026-01-05T10:00:00|2026-01-05T10:05:00|2026-01-06T10:05:00|1-00:00:00|2-00:00:00|billing=8,cpu=64,gres/gpu=16,node=2|2|COMPLETED
77.batch|amy||2026-01-05T10:05:00|2026-01-05T10:05:00|2026-01-06T10:05:00|1-00:00:00||cpu=32|1|COMPLETED
78|bob|cpu|2026-01-05T09:59:00|Unknown|Unknown|00:00:00|UNLIMITED||4|PENDING
"""
LINES = """{"id": "x", "submit": 5, "duration": 7, "devices": 3, "queue": "a", "priority": 2}
{"id": "y", "submit": 1, "duration": 2, "devices": 1}
"""


def read(folder: Path, text: str, columns: str | None = None) -> Trace:
    (folder / "trace").write_text(text)
    if columns is None:
        return read_trace(folder / "trace")
    (folder / "columns.yaml").write_text(columns)
    return read_trace(folder / "trace", read_columns(folder / "columns.yaml"))


def fields(found: Trace, *names: str) -> list[tuple[object, ...]]:
    return [tuple(getattr(job, name) for name in names) for job in found.jobs]


def test_standard_workload_format(tmp_path: Path) -> None:
    found = read(tmp_path, SWF)
    assert fields(found, "id", "submit", "duration", "devices", "requested", "queue", "user") == [
        ("2", 90, 20, 8, None, "", "7"),
        ("1", 100, 50, 4, 60, "batch", "7"),
    ]
    assert (found.machines, found.origin, found.left_out) == (128, 0, {"no run time": 1})


def test_gzip_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "trace.gz").write_bytes(gzip.compress(SWF.encode()))
    assert len(read_trace(tmp_path / "trace.gz").jobs) == 2


def test_a_workload_of_batsim(tmp_path: Path) -> None:
    for text in (json.dumps(BATSIM), json.dumps(BATSIM, indent=2)):
        found = read(tmp_path, text)
        assert fields(found, "id", "submit", "duration", "devices", "requested") == [
            ("w!2", 1, 12.5, 4, None),
            ("1", 4.5, 12.5, 2, 30),
        ]
        assert (found.machines, found.left_out) == (32, {"profile of type parallel": 1})


def test_philly(tmp_path: Path) -> None:
    found = read(tmp_path, PHILLY)
    assert fields(found, "duration", "devices", "queue") == [(2951, 8, "6214e9"), (66, 1, "11cb48")]
    assert found.jobs[1].submit - found.origin == 2932  # seconds after the first


def test_kalos_with_zones_and_a_job_that_has_not_ended(tmp_path: Path) -> None:
    found = read(tmp_path, KALOS)
    assert fields(found, "id", "duration", "devices", "user", "queue") == [
        ("a", 60, 16, "u1", "5"),
        ("b", None, 0, "u2", "1"),
    ]


def test_openb(tmp_path: Path) -> None:
    found = read(tmp_path, OPENB)
    assert fields(found, "id", "duration", "devices", "share", "cpu", "memory", "models", "queue") == [
        ("p0", 100, 1, 460, 12000, 16384 << 20, ("T4", "V100M16"), "LS")
    ]


def test_sacct(tmp_path: Path) -> None:
    found = read(tmp_path, SACCT)
    assert fields(found, "id", "duration", "requested", "devices", "queue", "user") == [
        ("78", None, None, 4, "cpu", "bob"),
        ("77", 86400, 172800, 16, "gpu", "amy"),
    ]
    assert found.left_out == {"a step of a job": 1}


def test_json_lines(tmp_path: Path) -> None:
    for text in (LINES, LINES.splitlines()[0]):
        found = read(tmp_path, text)
        assert fields(found, "id", "submit", "duration", "devices", "queue", "priority")[-1] == ("x", 5, 7, 3, "a", 2)


def test_columns_of_ones_own(tmp_path: Path) -> None:
    text = "Ticket;Came;Ran;Cards\nA1;10;5;4\n"
    found = read(tmp_path, text, "{id: Ticket, submit: Came, duration: [Walltime, Ran], devices: Cards}")
    assert fields(found, "id", "submit", "duration", "devices") == [("A1", 10, 5, 4)]


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        (
            "id,submit,duration,gpus\na,soon,5,1\nb,1,long,1\n",
            None,
            ["trace:2: invalid time 'soon'", "trace:3: invalid duration 'long'"],
        ),
        ("id,duration,gpus\na,5,1\n", None, ["trace:2: no submission time. Fix:"]),
        ("; MaxProcs: 8\n1 2 3\n", None, ["trace:2: expected 18 numbers"]),
        ('{"jobs": [}', None, ["trace:1:11: invalid JSON"]),
        ('{"jobs": [{"id": 1}], "profiles": {}}', None, ["trace:1: jobs[0]: missing 'profile'"]),
        ("a,b\n1,2\n", "[a]", ["columns.yaml: not a mapping"]),
        ("a,b\n1,2\n", "{gpus: a}", ["unknown meaning 'gpus' of a column"]),
        ("\x00\x01", None, ["trace: no jobs found"]),
    ],
)
def test_a_file_that_is_no_trace_is_named_with_its_lines(
    tmp_path: Path, text: str, columns: str | None, said: list[str]
) -> None:
    with pytest.raises(TraceError) as error:
        read(tmp_path, text, columns)
    assert all(part in str(error.value) for part in said)
