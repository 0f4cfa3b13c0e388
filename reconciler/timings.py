"""The numbers by which the reconciler waits, retries and gives up, grouped by part: in one place, and smaller in tests.

Seconds where nothing else is said. A part is given its group when it is made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    """Of the lease by which one replica acts."""

    duration: float = 15.0
    """After which others may take over."""
    deadline: float = 10.0
    """After which the holder stops."""
    period: float = 2.0
    """Between the begins of two renewals."""
    request_share: float = 0.4
    """Of the deadline: the time for one request. A server that answers within it renews the lease for ever, and one
    request that hangs does not lose it."""
    clock_slack: float = 60.0
    """By which the clocks of two machines may differ."""
    heartbeat_limit: float = 60.0
    """Within which the lease's thread shows that it turns."""


@dataclass(frozen=True, slots=True)
class WatchTimings:
    """Of the informers."""

    request: tuple[int, int] = (240, 480)
    """Least and greatest duration of one watch request."""
    relist: float = 600.0
    """After which a kind is listed again in any case."""
    stable: float = 5.0
    """After which a watch counts as one that works; one that ends before is followed by a pause."""
    first_pause: float = 0.5
    """After a failure: doubled with each, up to one of the following."""
    longest_pause: float = 5.0
    """After requests that fail, so that an API server that is back is seen soon."""
    longest_relist_pause: float = 10.0
    """After watches that end at once or are refused with 410: each costs a request, or a whole list."""
    longest_unavailable_pause: float = 60.0
    """For a kind that was never read: no right, or not served."""
    start: float = 60.0
    """For this long after it began, a 403 or 404 may come from an API server that has just started."""
    unserved_after: float = 3.0
    """Of 404, after which a kind that was never served is taken to be empty."""
    removed_after: float = 300.0
    """Of 404, after which a kind that was served is taken to be removed, if discovery does not show it either."""
    heartbeat_limit: float = 200.0
    """Within which an informer's thread shows that it turns: it may wait for a page, an event, or the next try."""
    look_again: float = 5.0
    """After which another version is looked for again, of a kind that is not served in the one that is watched."""
    list_wait: float = 10.0
    """For which a pass waits for the first lists of kinds that a new plan brings."""


@dataclass(frozen=True, slots=True)
class LookUpTimings:
    """Of the objects that a phase of a pass asks for by name."""

    most: int = 100
    """Objects, not seconds."""
    limit: float = 4.0
    """After which no further object is asked for: one read without an answer takes as long, and is not repeated for a
    while, so that the next pass comes to others."""


@dataclass(frozen=True, slots=True)
class RateTimings:
    """Of how fast one client writes."""

    per_second: float = 400.0
    """Writes, not seconds, in the long run."""
    burst: float = 400.0
    """The same, at once after a rest."""
    longest_wait: float = 1.0
    """That a writer waits for its turn; after that it has other things to do."""
    first_pause: float = 1.0
    """For which all writers wait where the server has asked for one object alone: it may be about that one, which waits
    for as long as it says."""
    longest_pause: float = 30.0
    """The same at most, once it has asked for another as well."""


@dataclass(frozen=True, slots=True)
class WriteTimings:
    """Of the threads that write for the loop."""

    writers: int = 12
    """Writes at a time, not seconds, those that are left not counted."""
    patience: float = 2.0
    """That the loop waits for a write."""
    short_patience: float = 0.5
    """The same while others of its kind are left."""
    look: float = 0.25
    """Between looks at what has begun too long ago."""
    most_left_of_group: int = 8
    """Writes under way that are left, not seconds, of one kind in one namespace, of one kind, and of all: then no more
    are begun. Those that the loop waits for by then may come on top of the first two; for the last they are counted
    in."""
    most_left_of_kind: int = 24
    most_left: int = 64
    idle: float = 5.0
    """After which a thread ends that has nothing to write."""


@dataclass(frozen=True, slots=True)
class GitTimings:
    """Of the poller, the clone and the receiver of webhooks."""

    poll_limit: float = 900.0
    """For one poll; each of its git commands has a limit of its own."""
    jitter: tuple[float, float] = (0.9, 1.1)
    """Shares of the interval between which a pause lies, so that many reconcilers do not ask a server all at once."""
    longest_pause: float = 300.0
    """For pauses while the repository cannot be fetched; the interval, where that is longer."""
    least_spacing: float = 1.0
    """From the begin of a fetch to the next, however often it is asked for."""
    packs: int = 30
    """Packs, not seconds, that a clone may have; each fetch that brings something makes one or two."""
    gc_limit: float = 60.0
    """For joining them."""
    gc_pause: float = 3600.0
    """Between two tries. A clone that is too large for the limit stays as it is, and works."""
    webhook_request: float = 10.0
    """For the whole of a webhook's request, from the connection on."""
    webhook_heartbeat_limit: float = 60.0
    """Within which the receiver's thread shows that it turns."""


@dataclass(frozen=True, slots=True)
class PlanningTimings:
    """Of commits and their plans."""

    compile_retry: float = 10.0
    """Until a compile that broke down is tried again although nothing changed: doubled each time, up to the next."""
    plan_retry: float = 300.0
    """Until a plan that was refused for what the cluster holds is tried again although nothing changed."""
    refusal_retry: float = 10.0
    """Until a commit that the API server refused is asked about again: doubled with each refusal, up to the next."""
    longest_refusal_retry: float = 300.0


@dataclass(frozen=True, slots=True)
class SchedulerTimings:
    """Of Volcano. Whether its scheduler has taken a new configuration is asked after `Settings.scheduler_timeout`."""

    stalled: float = 90.0
    """Until a component that owes something and does nothing has stalled: longer than a watch on which nothing comes is
    believed (`WATCH_SILENCE` of the client)."""
    look: float = 5.0
    """Between two looks for that: each goes over all jobs and pods, and several passes of a wave follow in a second."""
    probe: float = 5.0
    """Between two looks at the metrics, and within which they are to be sent."""
    whole_cycles: int = 2
    """Cycles, not seconds, that end between two looks that are compared: at least one of them lies between them as a
    whole."""
    probe_limit: float = 120.0
    """For one look at the metrics, then the thread counts as stuck."""


@dataclass(frozen=True, slots=True)
class RequestTimings:
    """Of what operators ask for."""

    poll: float = 2.0
    """Between two looks at the ConfigMap."""
    poll_limit: float = 60.0
    """Within which one must have come."""


@dataclass(frozen=True, slots=True)
class PodTimings:
    """Of gates, evictions, nodes and the scheduler's work; `Settings.bind_timeout` and `node_timeout` beside them."""

    rounds: int = 3
    """Failed rounds of binding, not seconds, after which a gang is held."""
    closed: float = 300.0
    """For which a node is closed to a gang after its first round, twice as long after each other one."""
    first_pause: float = 15.0
    """For which a gang pauses after its first round that no node is to blame for, doubled with each."""
    first_hold: float = 60.0
    """For which a held gang waits at least although its cause has changed, doubled with each round beyond the last."""
    longest_hold: float = 3600.0
    """After which a held gang has one more round although nothing was seen to change."""
    first_eviction_pause: float = 1.0
    """Until a refused eviction is asked for again: doubled with each refusal, up to the next."""
    longest_eviction_pause: float = 60.0
    eviction_batch: int = 32
    """Evictions of one pass, not seconds; then the cluster is looked at again, since their reason may be gone."""
    settle: float = 10.0
    """For which a node that is back must stay ready before it counts as whole."""
    flap_memory: float = 600.0
    """For which a loss counts when the node is lost again."""
    first_quarantine: float = 10.0
    """For which a node that was lost twice takes nothing new when it is back: doubled with each loss, up to the
    next."""
    longest_quarantine: float = 300.0
    disrupted_share: float = 0.55
    """Share of lost nodes, not seconds, above which no pod is evicted from one: more likely the network is at fault."""
    gates_reported_after: float = 3.0
    """For which a gate is not lifted before that is reported: a pod may have changed in between."""
    first_gate_pause: float = 0.5
    """Until a pass comes for gates that the server refused."""
    longest_gate_pause: float = 5.0
    """Until gates that could not be lifted are tried again: as long as that has gone on, and this at most."""
    batch: int = 200
    """Gates, not seconds, that are lifted between two writes of the inventory."""
    batch_beside_jobs: int = 96
    """The same while jobs wait to be made."""
    seconds_beside_jobs: float = 1.0
    """After which a pass leaves the other gates to the next one while jobs wait to be made."""


@dataclass(frozen=True, slots=True)
class ObjectTimings:
    """Of writes of objects."""

    batch: int = 200
    """Writes, not seconds, between two writes of the inventory."""
    many: int = 20
    """Changes, not seconds, of a batch to which Events give way; of corrections between passes, within the next."""
    busy: float = 1.0
    save_pauses: tuple[float, ...] = (0.1, 0.3, 0.6)
    """Before the inventory is written again after an attempt that failed."""
    slow_save: float = 2.0
    """After which a failed write of the inventory is not repeated at once, but paused like an object: the pass waits
    for it, and what has no need of it for the pass."""
    slow_factor: float = 3.0
    """Times that the server has taken to say that it cannot answer (a webhook that hangs), for which an object is then
    left alone, up to `longest_pause`."""
    first_pause: float = 0.5
    """Until a failed change is tried again: doubled with each failure, up to the next."""
    longest_pause: float = 60.0
    given_up_after: int = 5
    """Refusals, not seconds, of the same change in a row after which only what others do can help: 15 s, within which a
    queue that has just been made takes jobs."""
    first_unfixable_pause: float = 60.0
    """Until differences are looked at again that stayed when an object was written: doubled each time, up to the
    next."""
    longest_unfixable_pause: float = 3600.0
    fight_window: float = 60.0
    """In which `fight_threshold` corrections are forgotten."""
    fight_threshold: float = 5.0
    """Corrections, not seconds, within that time that make a fight."""
    fight_pause: float = 120.0
    """For which an object that is fought over is left alone."""
    jobs_in_flight: int = 32
    """Jobs, not seconds, that may have been made and have no pods yet."""
    flight: float = 8.0
    """After which a job without pods holds up no other."""
    soon: float = 0.1
    """After which a pass follows where room came while the last one was made."""
    slice: int = 400
    """Changes, not seconds, of one pass: gates of the first jobs are lifted while the last ones are still to be
    made."""


@dataclass(frozen=True, slots=True)
class OwnershipTimings:
    """Of what is ours, and what of it is deleted."""

    prune_window: int = 3600
    """For which deletions are summed up."""
    prune_limits: tuple[int, int, int, int] = (10, 5, 50, 64)
    """Objects, running jobs, running pods and devices in use, not seconds, that may always be deleted within it."""
    prune_share: float = 0.1
    """Beyond that, this share of what there is."""
    whole_kind: int = 4
    """Objects of a kind, not seconds, from which on they are not all deleted at once."""
    intent: float = 90.0
    """Until no request arrives any more of a former leader, or of which the answer was lost: the API server's time
    limit is 60 s."""


@dataclass(frozen=True, slots=True)
class DryRunTimings:
    """Of the questions whether the API server would take an object."""

    askers: int = 12
    """Questions under way at a time."""
    attempts: int = 3
    """Times that a question is asked which gets no answer."""
    patience: float = 30.0
    """After which no question is asked again that got no answer, and no other of its kind: a webhook that hangs is
    asked about all objects of a kind, and each question to it lasts as long as it may."""
    outage: float = 10.0
    """For which a question without an answer is asked again, however often: an API server that answers nothing for a
    moment would let everything pass."""
    longest_pause: float = 1.0
    """Between two of these attempts."""
    moment: float = 0.3
    """For which the start of a round of no more than `askers` questions waits for the answers: most come at once, and a
    pass less stands between a small commit and its first write."""
    heartbeat_limit: float = 600.0
    """Within which one of the questions under way has ended: each is a few requests, none of them begun after
    `patience`."""
    tell_after: float = 5.0
    """Without an answer after which the delay is told."""


@dataclass(frozen=True, slots=True)
class CompileTimings:
    """Of the process that compiles."""

    time_limit: float = 600.0
    """Wall time of one compile."""
    telling_limit: float = 60.0
    """For the worker to read a state."""
    idle: float = 2.0
    """Without an order after which the worker prepares the next one: by then the plan of the last one is written, and
    nothing waits for the cores."""
    grace: float = 60.0
    """Beyond these limits after which the thread that waits for the worker counts as one that hangs."""
    quiet: float = 5.0
    """Without a change in the cluster after which the worker is told what it holds."""
    longest_untold: float = 120.0
    """After which it is told although changes go on: to work out what they come to takes about a second of a core where
    there are ten thousand nodes."""


@dataclass(frozen=True, slots=True)
class PlanCopyTimings:
    """Of the copy of the plan in force that is kept in the cluster."""

    interval: float = 300.0
    """Between two copies of plans of the same commit."""
    failure_pause: float = 30.0
    """After a copy that was not written."""
    heartbeat_limit: float = 300.0
    """For one of its requests, and for packing."""


@dataclass(frozen=True, slots=True)
class RunTimings:
    """Of jobs that Volcano's job controller has lost, and of names that it has not cleaned up."""

    lost: float = 60.0
    """For which the controller does nothing for a job, while it does for one that came later, before the job is made
    again: twice as long after each time, up to `longest_lost`. It counts from when the controller last did something
    for a job that came with this one and waited as well: until then it is busy."""
    cohort: float = 60.0
    """Within which jobs come together: the controller serves them in no order. Jobs that come later and are served at
    once do not excuse that one is not."""
    per_waiting_job: float = 1.0
    """Longer for each other job that waits for the controller: on a busy machine it serves two a second."""
    unsure_factor: int = 5
    """Times as long, not seconds, where no other job shows that the controller works."""
    longest_lost: float = 3600.0
    longest_given_up: float = 600.0
    """The same for a job that the controller has ended without pods: whatever refused them may be mended any time."""
    cleanups_a_second: float = 10.0
    """Retries of the clean-up that the controller makes at most (`New` of pkg/controllers/job)."""
    cleanup_margin: float = 0.5
    """Added to the time in which the controller may still lose a new job of an old name."""


@dataclass(frozen=True, slots=True)
class InventoryTimings:
    """Of what is stored of objects and runs."""

    follow: float = 60.0
    """Between two looks of a replica that does not act at tables that change."""
    run_memory: int = 30 * 86_400
    """For which a finished run is remembered after its job left the repository."""
    shard_limit: int = 192 << 10
    """Bytes of a shard as it is stored, above which a table is spread wider; a ConfigMap holds 1 MiB, and a small shard
    is written fast."""
    run_memory_size: int = 100_000
    """Finished runs, not seconds, that are remembered at most, those of jobs in the repository apart."""


@dataclass(frozen=True, slots=True)
class ReportTimings:
    """Of the status and of Events."""

    status_interval: float = 1.0
    """Between two writes of the status while nothing but gangs and held objects change."""
    many_gangs_interval: float = 5.0
    """The same for gangs that stand in ConfigMaps of their own."""
    slow_write: float = 2.0
    """After which an attempt that fails is followed by a pause: `slow_factor` times as long, up to the one after."""
    slow_factor: float = 3.0
    longest_pause: float = 60.0
    annotation_look: float = 5.0
    """Between looks for an annotation that allows what is held."""
    events_per_second: float = 50.0
    """Events, not seconds: they are the least of what the API server has to do."""
    event_burst: float = 200.0
    calm: float = 1.0
    """For which nothing was changed before Events are written that wait for that; up to the next."""
    longest_event_hold: float = 30.0
    first_event_retry: float = 0.5
    """Until an Event that the server did not take for now is tried again: doubled while none is taken, up to the
    next."""
    longest_event_retry: float = 30.0
    event_attempts: int = 10
    """Attempts, not seconds, after which an Event is given up."""


@dataclass(frozen=True, slots=True)
class RestTimings:
    """Of the loop between two passes."""

    factor: float = 15.0
    """Times what a pass has computed for which the loop rests, up to the next: while much happens, a pass for each
    event would take the cores from those who do the work. What it has waited for the API server is rest."""
    longest: float = 0.7
    credit: float = 2.4
    """Of rest that may be put off: the few passes that a commit needs in a quiet cluster follow one another."""
    paced_factor: float = 10.0
    """The same times, from the second to the third of these, while new jobs are left to later passes: each pass makes
    as many as got their pods since the last one, and writes the inventory once for all of them."""
    paced: float = 1.0
    longest_paced: float = 2.0


@dataclass(frozen=True, slots=True)
class LoopTimings:
    """Of the loop, from its start to its end."""

    debounce: float = 0.05
    """In which further events join the same pass; drift is to be put back within a second."""
    stop_look: float = 0.5
    """Between looks at whether the process is to end: a signal's handler sets no event, since the main thread may hold
    that event's lock when it is interrupted."""
    longest_pause: float = 30.0
    """After which a pass is made although nothing happened."""
    first_failure_pause: float = 0.5
    """After a pass that failed as a whole: doubled with each failure, up to the next. Events cut it short, but not
    below this."""
    longest_failure_pause: float = 5.0
    told_failures: int = 2
    """Failed passes in a row, not seconds, of which the status speaks."""
    start: float = 60.0
    """For which the first pass waits for the lists and for git."""
    heartbeat_limit: float = 150.0
    """Within which the loop shows that it turns: between two passes, two phases, and two writes."""
    missing_grace: float = 10.0
    """Before that, for which a missing kind or right may be that of an API server that has just started."""
    server_look: float = 0.5
    """Between two tries whether the server has all that."""
    last_answer: float = 1.0
    """For the last answer before --timeout to be told, rather than that there was none."""
    stop_limit: float = 20.0
    """That the process has to end in order once it is told to; Kubernetes kills it after 30."""
    last_words: float = 5.0
    """For the log of a process that is cut off: perhaps it hangs because no reader takes it."""
    last_events: float = 3.0
    """For which the Events that wait are written at the end of the process."""
    longest_pass: float = 60.0
    """After which a pass begins no further change; the next one goes on."""


@dataclass(frozen=True, slots=True)
class Timings:
    """All groups."""

    lease: LeaseTimings = LeaseTimings()
    watch: WatchTimings = WatchTimings()
    rate: RateTimings = RateTimings()
    writes: WriteTimings = WriteTimings()
    look_ups: LookUpTimings = LookUpTimings()
    git: GitTimings = GitTimings()
    planning: PlanningTimings = PlanningTimings()
    scheduler: SchedulerTimings = SchedulerTimings()
    requests: RequestTimings = RequestTimings()
    pods: PodTimings = PodTimings()
    objects: ObjectTimings = ObjectTimings()
    ownership: OwnershipTimings = OwnershipTimings()
    dry_run: DryRunTimings = DryRunTimings()
    compile: CompileTimings = CompileTimings()
    plan_copy: PlanCopyTimings = PlanCopyTimings()
    report: ReportTimings = ReportTimings()
    runs: RunTimings = RunTimings()
    loop: LoopTimings = LoopTimings()
    rest: RestTimings = RestTimings()
    inventory: InventoryTimings = InventoryTimings()
    housekeeping: float = 30.0
    """Between two rounds in which what is gone is forgotten, and what was deleted by hand is written again."""


TIMINGS = Timings()
"""Those of production."""
