"""Builders of commands and runs with defaults. A test sets only the fields that it needs.

Every call makes new unique values (run ids, instance ids, nonces).
"""

from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from uuid_utils import uuid7

from headway.core.batch_state import MESSAGE
from headway.core.command.admin.instance import RegisterInstance
from headway.core.command.run.claim import ClaimedRun, ClaimRuns
from headway.core.command.run.inbox import PostToInbox
from headway.core.command.run.submit import Submit
from headway.core.document import Document, encode_document
from headway.core.ids import MAIN_LANE, InstanceId, Key, LaneName, RunId
from headway.core.run.admission import OnConflict
from headway.core.run.run import (
    NO_TOKEN,
    Claim,
    OnExistingOutput,
    QueueRank,
    Recovery,
    Run,
    RunMode,
)
from headway.core.run.status import RunStatus
from headway.core.run.window import Delivery
from headway.core.schedule import MissedPolicy, Schedule
from headway.core.timeouts import LEASE_TTL_S
from headway.testing.fake_clock import NOON

JOB: Final = "mirror"
KEY: Final = "ann"


def document(value: object, *, field: str = "document") -> Document:
    """Return `value` as the JSON text that commands take."""
    return encode_document(value, field=field)


def a_run_id() -> RunId:
    return RunId(str(uuid7()))


def a_submit(
    key: str = KEY,
    *,
    run_id: str | None = None,
    job: str = JOB,
    params: object = None,
    mode: RunMode = RunMode.START,
    lane: str = MAIN_LANE,
    on_conflict: OnConflict = OnConflict.REJECT,
    idempotency_key: str | None = None,
    fingerprint: str = "as before",
    queue_timeout_s: float | None = None,
    timeout_s: float | None = None,
    recovery: Recovery = Recovery.RESUME,
    on_existing_output: OnExistingOutput = OnExistingOutput.REPLACE,
    parent_id: RunId | None = None,
    is_unattended: bool = False,
    by: str = "",
) -> Submit:
    """Build a submission. `params` is any value that JSON can represent; None means `{}`."""
    return Submit(
        run_id=a_run_id() if run_id is None else RunId(run_id),
        key=Key(key),
        job=job,
        params=document({} if params is None else params, field="params"),
        mode=mode,
        lane=LaneName(lane),
        on_conflict=on_conflict,
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        queue_timeout_s=queue_timeout_s,
        timeout_s=timeout_s,
        recovery=recovery,
        on_existing_output=on_existing_output,
        parent_id=parent_id,
        is_unattended=is_unattended,
        by=by,
    )


def a_run(**fields: Any) -> Run:
    """Build a run. Unless `fields` override it, the run is queued and the head of its key."""
    run_id: RunId = fields.get("id", a_run_id())
    key = fields.get("key", KEY)
    run = Run(
        seq=1,
        id=run_id,
        key=key,
        lane=MAIN_LANE,
        job=JOB,
        mode=RunMode.START,
        recovery=Recovery.RESUME,
        status=RunStatus.QUEUED,
        head_key=key,
        waiting_key=None,
        queue_rank=int(QueueRank.READY),
        ready_seq=1,
        slot=None,
        instance_id=None,
        generation=0,
        token=NO_TOKEN,
        attempt=1,
        death_count=0,
        window=0,
        unread_count=0,
        queued_at=NOON,
        started_at=None,
        ended_at=None,
        queue_deadline_at=None,
        timeout_us=None,
        run_deadline_at=None,
        wake_at=None,
        cancel_deadline_at=None,
        due_at=None,
        run_seq=1,
        revision=1,
        continued_from=None,
        parent_id=None,
    )
    return run._replace(**fields)


def a_schedule(
    expression: str = "0 * * * *",
    *,
    name: str = "nightly",
    job: str = JOB,
    key: str = KEY,
    params: object = None,
    time_zone: str = "UTC",
    missed: MissedPolicy = MissedPolicy.SKIP,
    timeout_s: float | None = None,
) -> Schedule:
    return Schedule(
        name=name,
        expression=expression,
        job=job,
        key=Key(key),
        params=document({} if params is None else params, field="params"),
        time_zone=time_zone,
        missed=missed,
        timeout_s=timeout_s,
    )


def an_instance(
    instance_id: str | None = None, *, ttl_s: float = LEASE_TTL_S, host: str = "localhost"
) -> RegisterInstance:
    return RegisterInstance(
        instance_id=InstanceId(str(uuid4()) if instance_id is None else instance_id),
        host=host,
        pid=1,
        ttl_s=ttl_s,
    )


def a_claim(
    instance_id: InstanceId,
    *,
    lane: str = MAIN_LANE,
    jobs: Iterable[str] = (JOB,),
    count: int = 1,
) -> ClaimRuns:
    return ClaimRuns(
        lanes=(LaneName(lane),),
        instance_id=instance_id,
        jobs=frozenset(jobs),
        count=count,
        nonce=str(uuid4()),
    )


def claim_of(claimed: ClaimedRun) -> Claim:
    """Return the claim that the executor of `claimed` must present with every write."""
    return Claim(claimed.run_id, claimed.token)


def a_message(
    run_id: RunId,
    content: object = "hello",
    *,
    kind: str = MESSAGE,
    call_id: str | None = None,
    by: str = "",
    delivery: Delivery = Delivery.WHEN_LISTENING,
    idempotency_key: str | None = None,
) -> PostToInbox:
    """Build a message for a run's inbox. By default it is stored until the run listens."""
    return PostToInbox(
        run_id=run_id,
        kind=kind,
        payload=document(content, field="content"),
        by=by,
        call_id=call_id,
        delivery=delivery,
        idempotency_key=idempotency_key,
    )


def an_error(code: str = "broken", message: str = "it broke") -> Document:
    return document({"code": code, "message": message}, field="error")
