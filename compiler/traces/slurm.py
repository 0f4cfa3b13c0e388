"""Requests of Slurm's jobs, as sacct writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.traces.numbers import memory_bytes, whole

GPUS = "gres/gpu"
MILLICORES = 1000


def parse_tres(text: str | None) -> Mapping[str, str]:
    """Resource -> its amount, as written: `cpu=4,mem=16G,gres/gpu=2`."""
    return dict(part.partition("=")[::2] for part in (text or "").split(",") if part)


def gpus_of(tres: Mapping[str, str]) -> int:
    """GPUs of all types. Raises ValueError."""
    typed = [count for kind, count in tres.items() if kind.startswith(f"{GPUS}:")]
    return sum(whole(count, "TRES") for count in ([tres[GPUS]] if GPUS in tres else typed))


def cpu_and_memory(value: Callable[[str], str | None]) -> tuple[int, int]:
    """(millicores, bytes) of a job, 0 where nothing is stated: of its TRES, else ReqCPUS and ReqMem. value: the first
    column of a meaning. Raises ValueError."""
    tres = parse_tres(value("tres"))
    cpus = whole(tres.get("cpu") or value("cpus") or 0, "CPUs")
    memory = memory_bytes(tres["mem"], "TRES") if tres.get("mem") else _requested_memory(value, cpus)
    return cpus * MILLICORES, memory


def _requested_memory(value: Callable[[str], str | None], cpus: int) -> int:
    """ReqMem: of a node with the suffix n, of a CPU with c, else of the job."""
    text = value("slurm_memory") or "0"
    if text == "?":
        return 0
    times = {"n": whole(value("nodes") or 1, "nodes"), "c": cpus or 1}.get(text[-1], 1)
    return times * memory_bytes(text.rstrip("nc"), "ReqMem")
