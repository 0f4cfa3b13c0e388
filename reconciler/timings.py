"""The numbers by which the reconciler waits, retries and gives up: seconds, unless a comment names another unit.

Grouped by part; each part is given its group when it is made, and tests give it smaller numbers. A `first_` pause is
doubled with each failure, up to the `longest_` one.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:  # of a request: to connect, for the next byte, and for the whole of it
    connect: float
    read: float
    total: float


@dataclass(frozen=True, slots=True)
class ClientTimings:  # of requests to the API server
    request: Limits = Limits(5.0, 34.0, 40.0)  # an admission webhook may take 30 s; then the server names it
    brief: Limits = Limits(4.0, 4.0, 4.0)  # of a read that the loop waits for and can do without
    page: Limits = Limits(5.0, 30.0, 60.0)  # of a list
    start: Limits = Limits(5.0, 10.0, 15.0)  # before the reconciler begins
    watch_silence: float = 80.0  # then a watch is dead: the server sends a bookmark every minute
    watch_grace: float = 30.0  # beyond the time that a watch was asked for
    reconnect: float = 10.0  # of a silent connection
    unserved: float = 5.0  # between looks for a kind that discovery does not show
    unanswered: float = 30.0  # between tries of a brief read without an answer: all objects wait for the loop
    credentials: float = 1.0  # for which the token's header is good: the kubernetes package takes long to make it
    plugin: float = 30.0  # for a credential plugin; below the heartbeat limits of the threads that wait for it
    plugin_refresh: float = 3.0  # the same while the last token is good: the lease's thread waits as well
    plugin_pause: float = 30.0  # between such tries


@dataclass(frozen=True, slots=True)
class LeaseTimings:
    duration: float = 15.0  # then others may take over
    deadline: float = 10.0  # then the holder stops
    period: float = 2.0  # from the begin of one renewal to the next
    request_share: float = 0.4  # of the deadline, for one request: one that hangs does not lose the lease
    clock_slack: float = 60.0  # by which the clocks of two machines may differ
    heartbeat_limit: float = 60.0


@dataclass(frozen=True, slots=True)
class WatchTimings:
    request: tuple[int, int] = (240, 480)  # least and greatest duration of a watch request
    relist: float = 600.0  # then a kind is listed again in any case
    stable: float = 5.0  # then a watch counts as one that works; a pause follows one that ends before
    first_pause: float = 0.5
    longest_pause: float = 5.0  # after failed requests: an API server that is back is seen soon
    longest_relist_pause: float = 10.0  # after watches that end at once or with 410: each costs a request or a list
    longest_unavailable_pause: float = 60.0  # of a kind that was never read: no right, or not served
    start: float = 60.0  # in which a 403 or 404 may come from an API server that has just started
    unserved_after: float = 3.0  # of 404: a kind that was never served is empty
    removed_after: float = 300.0  # of 404, by discovery as well: a kind that was served is removed
    heartbeat_limit: float = 200.0  # more than the wait for a page, an event or the next try
    look_again: float = 5.0  # between looks for another version of a kind whose watched version is not served
    list_wait: float = 10.0  # of a pass, for the first lists of kinds that a new plan brings
    held_out: float = 300.0  # then an object on which a pass failed is read again


@dataclass(frozen=True, slots=True)
class LookUpTimings:  # of objects that a phase of a pass asks for by name
    most: int = 100  # objects
    limit: float = 4.0  # for one phase; a read without an answer takes as long and is not repeated for a while


@dataclass(frozen=True, slots=True)
class RateTimings:  # of how fast one client writes
    per_second: float = 400.0  # writes, in the long run
    burst: float = 400.0  # writes at once, after a rest
    longest_wait: float = 1.0  # of a writer for its turn
    first_pause: float = 1.0  # of all writers, where the server slows down one object: it may be about that one
    longest_pause: float = 30.0  # of all writers, where it slows down a second object too


@dataclass(frozen=True, slots=True)
class WriteTimings:  # of the threads that write for the loop
    writers: int = 12  # concurrent writes, without deferred ones
    patience: float = 2.0  # of the loop, for a write
    short_patience: float = 0.5  # while others of its kind are deferred
    look: float = 0.25  # between looks at what has begun too long ago
    # Limits of deferred writes. Writes that the loop waits for are extra, except in the last.
    most_left_of_group: int = 8  # of one kind in one namespace
    most_left_of_kind: int = 24
    most_left: int = 64
    idle: float = 5.0  # then a thread with nothing to write ends


@dataclass(frozen=True, slots=True)
class GitTimings:
    slow: float = 30.0  # of a fetch; then it is reported, though git may still succeed
    poll_limit: float = 900.0  # for one poll; each of its git commands has a limit of its own
    jitter: tuple[float, float] = (0.9, 1.1)  # shares of a pause, so that reconcilers do not ask all at once
    longest_pause: float = 120.0  # while the repository cannot be fetched; the poll interval where that is longer
    least_spacing: float = 1.0  # from the begin of a fetch to the next
    packs: int = 30  # packs of a clone, before they are joined; a fetch makes one or two
    gc_limit: float = 60.0  # for joining them; a clone that is too large for that stays as it is
    gc_pause: float = 3600.0  # between two tries


@dataclass(frozen=True, slots=True)
class HttpTimings:  # of our servers
    request: float = 10.0  # for a whole request, from the connection on
    heartbeat_limit: float = 60.0


@dataclass(frozen=True, slots=True)
class PlanningTimings:
    compile_retry: float = 10.0  # after a compile that broke down: doubled each time, up to the next
    plan_retry: float = 300.0  # of a plan that was refused for what the cluster holds, though nothing changed
    refusal_retry: float = 10.0  # of a commit that the API server refused: doubled each time, up to the next
    longest_refusal_retry: float = 300.0


@dataclass(frozen=True, slots=True)
class SchedulerTimings:  # of Volcano
    stalled: float = 90.0  # of a component that owes something: longer than a watch may be silent
    look: float = 5.0  # between two looks for that: each visits all jobs and pods
    probe: float = 5.0  # between two looks at the metrics, and for one request
    whole_cycles: int = 2  # cycles between two looks: at least one is whole
    probe_limit: float = 120.0  # then the thread counts as stuck


@dataclass(frozen=True, slots=True)
class RequestTimings:
    poll: float = 2.0  # between two looks at the ConfigMap
    poll_limit: float = 60.0


@dataclass(frozen=True, slots=True)
class PodTimings:
    """Times of gates, evictions and nodes; the operator sets `bind_timeout` and `node_timeout` in `Settings`."""

    rounds: int = 3  # failed rounds of binding, before a gang is held
    closed: float = 300.0  # of a node to a gang, after its first round: twice as long after each other
    first_pause: float = 15.0  # of a gang after a round that no node is to blame for
    first_hold: float = 60.0  # of a held gang although its cause has changed
    longest_hold: float = 3600.0  # then it has one more round although nothing changed
    first_eviction_pause: float = 1.0  # of a refused eviction
    longest_eviction_pause: float = 60.0
    first_escape_pause: float = 10.0  # between evictions of pods of a gang whose gates others remove
    longest_escape_pause: float = 600.0
    eviction_batch: int = 32  # evictions of one pass; then their reason may be gone
    settle: float = 10.0  # of a node that is back, before it counts as whole
    flap_memory: float = 600.0  # within which a second loss of a node counts
    first_quarantine: float = 10.0  # of a node that was lost twice
    longest_quarantine: float = 300.0
    disrupted_share: float = 0.55  # of nodes lost, above which none is evicted from: more likely the network fails
    gates_reported_after: float = 3.0  # without a lift: a pod may have changed in between
    orphaned: float = 10.0  # of a pod with its node, whose PodGroup is gone: its controller may make another
    unbound_reported_after: float = 30.0  # of a pod with its node, on which the scheduler has a message
    missing_reported_after: float = 30.0  # of a gang since its last pod was created, while it lacks some
    missing_keep_room: float = 60.0  # then others are planned there
    first_refusal_look: float = 3.0  # of a gang that lacks pods, at Events that name what refuses them
    longest_refusal_look: float = 60.0
    refusal_looks: LookUpTimings = LookUpTimings(most=8)
    first_gate_pause: float = 0.5  # of gates that the server refused
    longest_gate_pause: float = 5.0
    batch: int = 200  # gates between two writes of the inventory
    batch_beside_jobs: int = 96  # the same, while jobs wait to be made
    seconds_beside_jobs: float = 1.0  # for gates in a pass, while jobs wait to be made


@dataclass(frozen=True, slots=True)
class ObjectTimings:
    batch: int = 200  # writes between two writes of the inventory
    save_pauses: tuple[float, ...] = (0.1, 0.3, 0.6)  # between attempts to write the inventory
    slow_save: float = 2.0  # of a failed write of the inventory: no further attempt at once, the pass waits for it
    slow_factor: float = 3.0  # times the duration of a failure (a webhook that hangs): the pause of its object
    first_pause: float = 0.5  # of a change that failed
    longest_pause: float = 60.0
    keeps_room: float = 10.0  # of a job that the server refuses to create; then others are planned there
    given_up_after: int = 5  # refusals of the same change in a row (15 s): only others can help
    first_unfixable_pause: float = 60.0  # of differences that stayed when an object was written
    longest_unfixable_pause: float = 3600.0
    fight_window: float = 60.0  # in which so many corrections cool down
    fight_threshold: float = 5.0  # corrections that make a fight
    fight_pause: float = 120.0
    jobs_in_flight: int = 128  # jobs made that have no pods yet
    flight: float = 8.0  # then a job without pods holds up no other
    soon: float = 0.1  # until the next pass, if room was freed during the last one
    slice: int = 400  # changes of one pass, so that the first gates are lifted before the last jobs are made


@dataclass(frozen=True, slots=True)
class OwnershipTimings:
    prune_window: int = 3600  # over which deletions are summed up
    prune_limits: tuple[int, int, int, int] = (10, 5, 50, 64)  # objects, running jobs, running pods, devices in use
    prune_share: float = 0.1  # of what there is, where that is more
    whole_kind: int = 4  # objects of a kind, from which on not all go at once
    intent: float = 90.0  # in which a request may still arrive; the API server's time limit is 60 s


@dataclass(frozen=True, slots=True)
class DryRunTimings:  # of the questions whether the API server would take an object
    askers: int = 12  # questions at a time
    attempts: int = 3  # at a question without an answer
    patience: float = 30.0  # then no question of this kind is repeated: a webhook that hangs is asked about all
    outage: float = 10.0  # in which a question is repeated however often: the API server may be restarting
    longest_pause: float = 1.0  # between attempts
    moment: float = 0.3  # for the answers to at most `askers` questions, so that a small commit needs a pass less
    heartbeat_limit: float = 600.0  # for one question: a few requests, none begun after `patience`
    report_after: float = 5.0  # then the delay is reported


@dataclass(frozen=True, slots=True)
class CompileTimings:
    time_limit: float = 600.0  # wall time of one compile
    sending_limit: float = 60.0  # for the worker to read a state
    longest_rest: float = 5.0  # from a compile to the next of the same commit: as long as it took, up to this
    idle: float = 2.0  # without an order, before the worker prepares the next one
    grace: float = 60.0  # beyond these limits, before the waiting thread counts as one that hangs
    quiet: float = 5.0  # without a change in the cluster, before its state is sent to the worker
    longest_unsent: float = 120.0  # then it is sent despite changes: it costs a second at 10,000 nodes


@dataclass(frozen=True, slots=True)
class PlanCopyTimings:  # of the copy of the plan that is kept in the cluster
    interval: float = 300.0  # between two copies of the same commit's plans
    failure_pause: float = 30.0
    heartbeat_limit: float = 300.0  # for one request, and for packing


@dataclass(frozen=True, slots=True)
class RunTimings:  # of jobs that Volcano's job controller has lost, and of names that it has not cleaned up
    lost: float = 60.0  # of a job untouched while the controller serves later ones: twice as long after each time
    cohort: float = 60.0  # within which jobs are created together; the controller serves them in no order
    per_waiting_job: float = 1.0  # more for each other job that waits: a busy controller serves two a second
    unsure_factor: int = 5  # times as long, where no other job shows that the controller works
    longest_lost: float = 3600.0
    longest_given_up: float = 600.0  # of a job that it ended without pods: what refused them may have been fixed
    cleanups_a_second: float = 10.0  # of the controller at most (`New` of pkg/controllers/job)
    cleanup_margin: float = 0.5  # added to the time in which it may lose a new job of an old name


@dataclass(frozen=True, slots=True)
class InventoryTimings:
    follow: float = 60.0  # between looks at the tables by a replica that does not act
    run_memory: int = 30 * 86_400  # of a finished run whose job left the repository
    shard_limit: int = 192 << 10  # bytes, above which a table is spread wider; small shards are written fast
    run_memory_size: int = 100_000  # finished runs, without those of jobs in the repository


@dataclass(frozen=True, slots=True)
class ReportTimings:  # of the status and of Events
    status_interval: float = 1.0  # between writes, while only gangs and held objects change
    gangs_of_interval: int = 1000  # gangs; where there are more, the interval is as much longer
    slow_write: float = 2.0  # of a failed attempt: `slow_factor` times as long nothing is written
    slow_factor: float = 3.0
    longest_pause: float = 60.0
    annotation_look: float = 5.0  # between looks for an annotation that releases held changes
    events_per_second: float = 20.0  # Events: the least of what the API server has to do
    event_burst: float = 50.0
    first_event_retry: float = 0.5
    longest_event_retry: float = 30.0
    event_attempts: int = 10  # then an Event is dropped


@dataclass(frozen=True, slots=True)
class RestTimings:  # between two passes of the loop. The time that a pass waits for the API server is rest
    factor: float = 20.0  # times what a pass has computed, up to the next: others need the cores
    longest: float = 1.0
    credit: float = 3.4  # of rest that may be put off: the few passes of a commit follow one another
    paced_factor: float = 10.0  # the same, while new jobs are deferred to later passes: each saves the inventory once
    paced: float = 1.0  # the least then
    longest_paced: float = 2.0


@dataclass(frozen=True, slots=True)
class LoopTimings:
    debounce: float = 0.05  # in which further events join the same pass; drift is put back within a second
    stop_look: float = 0.5  # between looks for a stop: a signal's handler cannot set an event
    longest_pause: float = 30.0  # then a pass is made although nothing happened
    first_failure_pause: float = 0.5  # of a failed pass; events cut it short, but not below this
    longest_failure_pause: float = 5.0
    reported_failures: int = 2  # failed passes in a row, before the status speaks of them
    start: float = 60.0  # of the first pass, for the lists and for git
    first_fetch: float = 10.0  # of that, for git
    heartbeat_limit: float = 150.0  # between two passes, two phases and two writes
    missing_grace: float = 10.0  # before that, in which a missing kind or right may be an API server that starts
    server_look: float = 0.5  # between two tries whether the server has all that
    last_answer: float = 1.0  # for the last answer before --timeout
    stop_limit: float = 20.0  # for an orderly end; Kubernetes kills the process after 30
    last_words: float = 5.0  # for the log of a process that is cut off
    last_events: float = 3.0  # for Events that wait at the end
    error_pause: float = 1.0  # of a thread, after an exception that its step did not expect
    longest_pass: float = 60.0  # then a pass begins no further change
    turn: float = 0.001  # of a thread that computes, while one waits that writes: each system call costs it a turn


@dataclass(frozen=True, slots=True)
class Timings:
    client: ClientTimings = ClientTimings()
    lease: LeaseTimings = LeaseTimings()
    watch: WatchTimings = WatchTimings()
    rate: RateTimings = RateTimings()
    writes: WriteTimings = WriteTimings()
    look_ups: LookUpTimings = LookUpTimings()
    git: GitTimings = GitTimings()
    http: HttpTimings = HttpTimings()
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
    housekeeping: float = 30.0  # between rounds in which parts forget deleted objects


TIMINGS = Timings()  # of production
