"""Every command describes itself: the length of its documents, and whether to claim with it."""

from typing import Any

import pytest

from headway.core.command.admin.save_key import SaveKey
from headway.core.command.flow.advance import AdvanceFlow, ContinueTask, EndTask, ParkTask
from headway.core.command.flow.publish import FlowStart, PublishFlow, StartFlow, StartFlowChild
from headway.core.command.flow.shared_state import PostSignal, SharedStateUsage
from headway.core.command.protocol import Command
from headway.core.command.run.child import StartChild, make_child_id
from headway.core.flow.engine.records import FLOW_JOB, SharedValue
from headway.core.ids import Key, RunId
from headway.core.run.run import Claim
from headway.testing.builders import a_message, a_submit, document

TEXT = "x" * 1_000
LARGE = document(TEXT)
RUN = RunId("01890000-0000-7000-8000-000000000000")
CLAIM = Claim(RUN, "1")
TASK = a_submit(job=FLOW_JOB, params=TEXT)
CHILD = StartChild(
    claim=CLAIM,
    attempt=1,
    step="1",
    submission=a_submit(run_id=make_child_id(RUN, "1", 1), params=TEXT, parent_id=RUN),
)
START = FlowStart(flow="f", version=1, node="a", shared=(('"x"', LARGE),))


def step(**parts: Any) -> AdvanceFlow:
    return AdvanceFlow(
        claim=CLAIM, parent_id=None, columns={}, **{"next_action": ContinueTask(), **parts}
    )


@pytest.mark.parametrize(
    "command",
    [
        a_submit(params=TEXT),
        CHILD,
        SaveKey(key=Key("ann"), job="mirror", params=LARGE),
        a_message(RUN, TEXT),
        PostSignal(run_id=RUN, key="go", value=LARGE, usage=SharedStateUsage(0, 0)),
        PublishFlow(name="f", flow_id="flow-1", definition=LARGE),
        step(shared_added=(SharedValue(RUN, '"x"', LARGE),)),
        step(shared_changed=(SharedValue(RUN, '"x"', LARGE),)),
        step(next_action=EndTask(None, LARGE)),
    ],
)
def test_document_length_counts_the_documents_of_a_command(command: Command[Any]) -> None:
    assert command.document_length() == len(LARGE)


@pytest.mark.parametrize(
    "command",
    [StartFlow(submission=TASK, start=START), StartFlowChild(child=CHILD, start=START)],
)
def test_document_length_of_a_new_task_counts_params_and_shared_state(
    command: Command[Any],
) -> None:
    assert command.document_length() == 2 * len(LARGE)


@pytest.mark.parametrize(
    ("command", "may_free_capacity"),
    [
        (step(), False),
        (step(cancel_child_ids=(RUN,)), True),
        (step(next_action=ParkTask("wait", None, LARGE)), True),
        (step(next_action=EndTask(None, LARGE)), True),
        (SaveKey(key=Key("ann"), job="mirror"), False),
        (a_message(RUN, TEXT), True),
    ],
)
def test_each_command_reports_whether_it_may_free_capacity(
    command: Command[Any], may_free_capacity: bool
) -> None:
    assert command.may_free_capacity is may_free_capacity
