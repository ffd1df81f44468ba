import { CloseButton } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { reasonOf } from "../api";
import { Empty } from "../parts/Empty";
import { useFocusOn } from "../parts/focusOn";
import { APPROVAL_COUNT_MAX, useApprovals } from "../tasks/approvals";
import { nameOf } from "../tasks/words";
import { ApprovalCard } from "./ApprovalCard";
import classes from "./Inbox.module.css";
import { InterruptCard } from "./InterruptCard";
import { SHOWN_COUNT_MAX, useInterrupts } from "./interrupts";
import { shownOf } from "./question";

const GONE_COUNT_MAX = 10;

interface Asked {
  id: string;
  title: string;
}

interface Gone extends Asked {
  /** It was answered here, but too late. */
  wasTried: boolean;
}

export function Inbox() {
  const interrupts = useInterrupts();
  const approvals = useApprovals();
  const questions = interrupts.data?.map((one) => ({ id: `${one.run_id} ${one.call_id}`, title: shownOf(one).title, one })) ?? [];
  const tasks = approvals.data?.map((one) => ({ id: one.id, title: `${one.flow}: ${nameOf(one)}`, one })) ?? [];
  const asked: Asked[] = [...questions, ...tasks];
  const isKnown = interrupts.data !== undefined && approvals.data !== undefined;
  const error = (interrupts.data === undefined && interrupts.error) || (approvals.data === undefined && approvals.error);
  const { gone, answered, dismiss } = useGone(asked, isKnown);
  const list = useFocusOn(asked.map(({ id }) => id));
  return (
    <div className={classes.inbox} ref={list}>
      <h1 tabIndex={-1}>Inbox</h1>
      {error && <Empty title="The inbox cannot be read">{reasonOf(error)}</Empty>}
      <div role="status">
        {gone.map(({ id, title, wasTried }) => (
          <p key={id} className={classes.gone} data-testid="gone" dir="auto">
            <span>
              {wasTried ? `Somebody else was faster: your answer to “${title}” does not count.` : `“${title}” is not asked any more: somebody has answered it, or it is over.`}
            </span>
            <CloseButton size="sm" aria-label="Dismiss" onClick={() => dismiss(id)} />
          </p>
        ))}
      </div>
      {isKnown && asked.length === 0 && <Empty title="Nobody waits for you">When a run or a task asks a person, the question appears here.</Empty>}
      {questions.map(({ id, one }) => (
        <div key={id} data-asked={id}>
          <InterruptCard interrupt={one} onAnswered={(isTaken) => answered(id, isTaken)} />
        </div>
      ))}
      {tasks.map(({ id, one }) => (
        <div key={id} data-asked={id}>
          <ApprovalCard task={one} onAnswered={(isTaken) => answered(id, isTaken)} />
        </div>
      ))}
      {(questions.length === SHOWN_COUNT_MAX || tasks.length === APPROVAL_COUNT_MAX) && <p>These have waited the longest; there are more.</p>}
    </div>
  );
}

/** What was asked before, is not any more, and was not answered here. */
function useGone(asked: Asked[], isKnown: boolean) {
  const [gone, setGone] = useState<Gone[]>([]);
  const before = useRef<Asked[]>([]);
  const answers = useRef(new Map<string, boolean>());
  useEffect(() => {
    if (!isKnown) return;
    const ids = new Set(asked.map(({ id }) => id));
    const others = before.current.filter(({ id }) => !ids.has(id) && answers.current.get(id) !== true);
    before.current = asked;
    if (others.length === 0) return;
    const more = others.map(({ id, title }) => ({ id, title, wasTried: answers.current.get(id) === false }));
    setGone((known) => [...known, ...more].slice(-GONE_COUNT_MAX));
  }, [asked, isKnown]);
  return {
    gone,
    answered: (id: string, isTaken: boolean) => void answers.current.set(id, isTaken),
    dismiss: (id: string) => setGone((known) => known.filter((one) => one.id !== id)),
  };
}
