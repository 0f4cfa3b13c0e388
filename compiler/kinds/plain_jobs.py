"""Job kinds that `job_kinds.toml` describes fully: AscendJob as ascend-operator passes it to Volcano, the CronJobs of
Kubernetes and Volcano, whose next Job is unknown before it exists, and kinds of operators that serve models."""

from __future__ import annotations

from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.kind import kinds_in

KINDS = tuple(job_kind(job_row(key)) for key in kinds_in("plain_jobs"))
