"""Every format of traces, by its content."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable, Mapping
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


HEADER = "id,submit,duration,devices\n"
STATES = """JobID|JobName|Submit|Start|End|Elapsed|AllocTRES|NNodes|State
1|"half a quote|2026-01-05T10:00:00|2026-01-05T10:00:00|2026-01-05T11:00:00|01:00:00|cpu=8,gres/gpu:a100=4|1|COMPLETED
2|typed|2026-01-05T10:00:01|2026-01-05T10:00:01|2026-01-05T11:00:00|01:00:00|gres/gpu:a100=2,gres/gpu:h100=1|1|FAILED
3|cpu|2026-01-05T10:00:02|2026-01-05T10:00:02|2026-01-05T11:00:00|01:00:00|cpu=8,node=3|3|COMPLETED
4_7|runs|2026-01-05T10:00:03|2026-01-05T10:00:02|Unknown|01:00:00|gres/gpu=2|1|RUNNING
4_7.batch|batch|2026-01-05T10:00:03|2026-01-05T10:00:02|Unknown|01:00:00|gres/gpu=2|1|RUNNING
5+0|het|2026-01-05T10:00:04|2026-01-05T10:00:04|2026-01-05T10:01:04|00:01:00|gres/gpu=1|1|CANCELLED by 7
5+0.extern|x|2026-01-05T10:00:04|2026-01-05T10:00:04|2026-01-05T10:01:04|00:01:00|gres/gpu=1|1|COMPLETED
6_[1-9%2]|"waits|2026-01-05T10:00:05|Unknown|Unknown|00:00:00||1K|PENDING
"""


def batsim(*changes: dict[str, object], nb_res: object = 32) -> str:
    """A workload with a job for each of these changes."""
    jobs = [{"id": 1, "subtime": 0, "res": 1, "walltime": 9, "profile": "short", **change} for change in changes]
    return json.dumps({**BATSIM, "nb_res": nb_res, "jobs": jobs})


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


PACKS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "utf-16": lambda text: text.decode().encode("utf-16"),
}


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_compressed_files_and_those_of_powershell_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / "trace").write_bytes(pack(SWF.encode()))
    assert len(read_trace(tmp_path / "trace").jobs) == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"a", mtime=0)[:-9] + b"x" * 9, "not a text file"),
        (b"PK\x03\x04\xff", "a zip archive. Fix: unpack it"),
    ],
    ids=("broken gzip", "zip"),
)
def test_what_cannot_be_unpacked_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "trace").write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_trace(tmp_path / "trace")


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


def test_jobs_of_slurm_by_state_type_of_gpu_and_component(tmp_path: Path) -> None:
    for text in (STATES, STATES.replace("\n", "|\n"), STATES.replace("\n", "\r\n")):
        found = read(tmp_path, text)
        assert fields(found, "id", "duration", "devices") == [
            ("1", 3600, 4),
            ("2", 3600, 3),
            ("3", 3600, 0),
            ("4_7", None, 2),
            ("5+0", 60, 1),
            ("6_[1-9%2]", None, 1024),
        ]
        assert found.left_out == {"a step of a job": 2}


def test_a_job_of_slurm_that_never_started_did_not_run(tmp_path: Path) -> None:
    text = "JobID|Submit|Start|End|NNodes\n1|2026-01-05T10:00:00|None|2026-01-05T10:10:00|2\n"
    assert fields(read(tmp_path, text), "duration") == [(None,)]


def test_sizes_and_times_that_say_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, "id,submit,duration,requested,devices\na,0,10,0,1\nb,0,10,-1,1\nc,0,10,5,-1\n")
    assert fields(found, "id", "requested") == [("a", None), ("b", None)]
    assert found.left_out == {"no size": 1}


@pytest.mark.parametrize(
    "text",
    [
        f"\n# exported\n{HEADER}a,0,10,1\n",
        "id|submit|duration|devices\n#a|0|10|1\n",
        "\n  ; MaxProcs: -1\n ;MaxNodes: 8\n1 +0 -1 1e1 1 -1 -1 1 -1 -1 1 1 1 -1 1 -1 -1 -1\n",
        '{"id": 1, "submit": 0, "duration": 10, "devices": 1, "queue": "jobs"}\n',
    ],
)
def test_files_that_begin_oddly(tmp_path: Path, text: str) -> None:
    assert fields(read(tmp_path, text), "submit", "duration", "devices") == [(0, 10, 1)]


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
            ["trace:2: invalid submission time 'soon'", "trace:3: invalid duration 'long'"],
        ),
        (
            "id,duration,gpus\na,5,1\nb,5,1\n",
            None,
            ["trace:2: no submission time among the columns id, duration, gpus. Fix:", "(2 lines)"],
        ),
        ("; MaxProcs: 8\n1 2 3\n", None, ["trace:2: expected 18 numbers"]),
        ('{"jobs": [}', None, ["trace:1:11: invalid JSON"]),
        ('{"jobs": [{"id": 1}], "profiles": {}}', None, ["trace:1: jobs[0]: missing 'profile'"]),
        (
            f"{HEADER}a,0,1,1\n",
            "{devices: [gpu, Cards]}",
            ["trace:1: no column gpu or Cards, which --columns names for"],
        ),
        ("a,b\n1,2\n", "[a]", ["columns.yaml: not a mapping"]),
        ("a,b\n1,2\n", "{gpus: a}", ["unknown meaning 'gpus' of a column"]),
        ("\x00\x01", None, ["trace: not a text file"]),
        ("id,submit,duration\na,0,5\n", None, ["trace: no jobs found (no size: 1). Fix: name the column"]),
        (
            f"{HEADER}a,inf,1,1\nb,0,1,inf\nc,0,1,0.5\nd,0,1e300,1\n",
            None,
            [f"trace:{n}: invalid" for n in (2, 3, 4, 5)],
        ),
        (f"{HEADER}a,1711843200000,1,1\n", None, ["too large. Fix: write seconds, not milliseconds"]),
        (f"{HEADER}a,nan,1,1\n", None, ["trace:2: unknown submission time. Fix:"]),
        (
            f"{HEADER}a,0,1,1\nb,0\nc,0,1,1,more\n",
            None,
            ["trace:3: 2 values for 4", "trace:4: 5 values for 4 columns. Fix:"],
        ),
        (f'{HEADER}"a\nb",0,1,1\nc,x,1,1\n', None, ["trace:4: invalid submission time 'x'"]),
        (f"{HEADER}{'a' * 200_000},0,1,1\n", None, ["trace:2: field larger than field limit"]),
        (f"{HEADER}a,0,1,1\nb,2024-03-31,1,1\n", None, ["trace:job a is submitted at 0 and job b at a date. Fix:"]),
        ('{"id": 1, "submit": 0, "duration": 1, "devices": 1}\n5\n', None, ["trace:2: not a JSON object. Fix:"]),
        ('[{"id": 1}]', None, ["trace:1: a JSON array. Fix:"]),
        (batsim(nb_res=-3), None, ["trace:1: invalid nb_res -3"]),
        (
            batsim({"walltime": "x"}, {"res": 0}, {"profile": "none"}),
            None,
            [f"trace:1: jobs[{n}]: " for n in (0, 1, 2)],
        ),
        (batsim({"subtime": 1e400}), None, ["trace:1: jobs[0]: invalid subtime inf: not a number"]),
    ],
)
def test_a_file_that_is_no_trace_is_named_with_its_lines(
    tmp_path: Path, text: str, columns: str | None, said: list[str]
) -> None:
    with pytest.raises(TraceError) as error:
        read(tmp_path, text, columns)
    assert all(part in str(error.value) for part in said)


@pytest.mark.parametrize("header", ["; MaxProcs: 1,024", "; MaxNodes: 1,024"])
def test_thousands_of_machines_may_have_separators(tmp_path: Path, header: str) -> None:
    assert read(tmp_path, f"{header}\n{SWF.splitlines()[3]}\n").machines == 1024


@pytest.mark.parametrize(
    ("columns", "values", "cpu", "memory"),
    [
        ("AllocTRES", "billing=9,cpu=4,mem=16G,node=2,gres/gpu=2,gres/gpu:a100=2", 4_000, 16 << 30),
        ("AllocTRES|ReqTRES", "|cpu=2,mem=62.50G", 2_000, 125 << 29),
        ("ReqCPUS|ReqMem|NNodes", "8|4Gn|2", 8_000, 8 << 30),
        ("ReqCPUS|ReqMem|NNodes", "8|2Gc|2", 8_000, 16 << 30),
        ("ReqCPUS|ReqMem|NNodes", "8|16000M|2", 8_000, 16_000 << 20),
        ("ReqCPUS|ReqMem|NNodes", "8|1.50T|2", 8_000, 3 << 39),
        ("ReqCPUS|ReqMem|NNodes", "8|?|2", 8_000, 0),
        ("ReqTRES|ReqMem|NNodes", "cpu=3|4Gc|1", 3_000, 12 << 30),
    ],
    ids=["allocated", "requested", "of-nodes", "of-cpus", "of-the-job", "terabytes", "unknown", "cpus-of-tres"],
)
def test_cpu_and_memory_of_slurm_jobs(tmp_path: Path, columns: str, values: str, cpu: int, memory: int) -> None:
    times = "JobID|Submit|Elapsed|NCPUS", "7|2024-05-01T00:00:00|00:10:00|1"
    (job,) = read(tmp_path, f"{times[0]}|{columns}\n{times[1]}|{values}\n").jobs
    assert (job.cpu, job.memory) == (cpu, memory)


def test_lines_without_times_are_read_in_order_for_a_sample(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1000,1,1,1000\na,1000,1,2,1000\n")
    assert [job.id for job in read_trace(path, is_timed=False).jobs] == ["b", "a"]
    with pytest.raises(TraceError, match=r"no submission time among .* --sample"):
        read_trace(path)
