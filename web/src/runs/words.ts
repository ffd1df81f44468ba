/** Events in words. */
import type { EventView } from "../client";
import { length } from "../time";
import { errorText, TOO_LONG } from "./reasons";

const LINE_LENGTH_MAX = 2_000;

type Tone = "plain" | "state" | "warning" | "error";

interface Words {
  words: string;
  tone: Tone;
}

export interface Line extends Words {
  id: string;
  at: string;
}

/** A line for each event, and for each line that a job has logged: one event may have many of them. */
export function linesOf(events: EventView[]): Line[] {
  return events.flatMap((event) =>
    wordsOf(event).map(({ words, tone }, index) => ({ id: `${event.seq}.${index}`, at: event.at, words: cut(words), tone })),
  );
}

function wordsOf(event: EventView): Words[] {
  const payload = (event.payload ?? {}) as Record<string, unknown>;
  if (event.type !== "run_log" || !Array.isArray(payload.lines)) return [told(event, payload)];
  return payload.lines.map((line: Record<string, unknown>) => ({ words: logWords(line), tone: toneOf(line.level) }));
}

function told(event: EventView, payload: Record<string, unknown>): Words {
  switch (event.type) {
    case "run_state_changed":
      return { words: stateWords(payload), tone: payload.to === "failed" || payload.to === "timed_out" ? "error" : "state" };
    case "run_progress":
      return { words: `Progress: ${briefly(payload)}`, tone: "plain" };
    case "run_checkpoint":
      return { words: "A checkpoint was saved.", tone: "plain" };
    case "run_waiting":
      return { words: "It waits, and lets others have its place.", tone: "state" };
    case "run_resumed":
      return { words: "It goes on.", tone: "state" };
    case "run_parked":
      return { words: parkedWords(payload), tone: "state" };
    case "run_woken":
      return { words: "It was woken.", tone: "state" };
    case "run_taken_over":
      return { words: "The process that ran it is gone; another takes it over.", tone: "warning" };
    case "run_retried":
      return { words: retryWords(payload), tone: "warning" };
    case "run_message_posted":
      if (payload.carried_from) return { words: "A message came over from the run that this one replaces.", tone: "state" };
      return { words: payload.kind === "answer" ? "Somebody has answered." : "A message came in.", tone: "state" };
    case "run_messages_unread":
      return { words: unreadWords(payload), tone: "warning" };
    case "run_answers_unread":
      return { words: `It ended without hearing ${payload.count === 1 ? "an answer" : `${String(payload.count)} answers`} to what it had asked.`, tone: "warning" };
    case "run_messages_carried":
      return { words: `${messageCount(payload.count)} it had not read went to the run that replaces it.`, tone: "state" };
    case "run_messages_consumed":
      return { words: `It has read ${payload.count === 1 ? "a message" : `${String(payload.count)} messages`}.`, tone: "plain" };
    case "queued_message":
      return { words: `It read a message${payload.by ? ` from ${String(payload.by)}` : ""}: ${briefly(payload.message)}`, tone: "plain" };
    case "node_run":
      return nodeRunWords(payload);
    case "permission_request":
      return { words: `It asks: ${briefly(payload.question)}`, tone: "warning" };
    case "permission_result":
      return { words: questionEnd(payload), tone: "state" };
    default:
      return { words: `${event.type}: ${briefly(event.payload)}`, tone: "plain" };
  }
}

function questionEnd({ outcome, answer }: Record<string, unknown>): string {
  switch (outcome) {
    case "timed_out":
      return `There was no answer in time; it continued with: ${briefly(answer)}`;
    case "cancelled":
      return "Its question was closed: the run was cancelled.";
    case "shutdown":
      return "Its question was denied, because its process stopped.";
    case "withdrawn":
      return "Its question was withdrawn: the attempt that asked it failed, or the run was executed again and asked a different question.";
    default:
      return `It was answered: ${briefly(answer)}`;
  }
}

function nodeRunWords({ node, branch, attempt, status, action, error }: Record<string, unknown>): Words {
  const where = `“${String(node)}”${typeof branch === "number" && branch > 0 ? `, branch ${branch + 1}` : ""}${attempt === 1 ? "" : `, try ${String(attempt)}`}`;
  if (status === "error") return { words: `${where} failed: ${String(error)}`, tone: "error" };
  return { words: `${where} is done${action ? `, and leads on by “${String(action)}”` : ""}.`, tone: "plain" };
}

function stateWords(payload: Record<string, unknown>): string {
  switch (payload.to) {
    case "queued":
      return "It joined the queue.";
    case "running":
      return "It began.";
    case "cancelling":
      return `It was asked to end${reasonIn(payload)}.`;
    case "canceled":
      return payload.forced === true ? "It did not end in time, and was ended." : `It was cancelled${reasonIn(payload)}.`;
    case "succeeded":
      return "It is done.";
    case "failed":
      return `It failed: ${errorText(payload.error) ?? "no error message"}`;
    case "timed_out":
      return `It timed out: ${errorText(payload.error) ?? TOO_LONG}`;
    default:
      return `It is ${String(payload.to)}.`;
  }
}

function parkedWords(payload: Record<string, unknown>): string {
  if (payload.reason !== "handed_over") return "It is parked until an event wakes it.";
  const count = Number(payload.stop_count);
  const without = count > 0 ? ` (${count} ${count === 1 ? "stop" : "stops"} without progress)` : "";
  return `Its program stopped, and another program continues it${without}.`;
}

function reasonIn(payload: Record<string, unknown>): string {
  const reason = (payload.cancel as { reason?: unknown } | undefined)?.reason;
  return typeof reason === "string" && reason !== "" ? ` (${reason})` : "";
}

function messageCount(count: unknown): string {
  return count === 1 ? "A message that" : `${String(count)} messages that`;
}

function unreadWords({ count, messages }: Record<string, unknown>): string {
  const shown = (Array.isArray(messages) ? messages : []) as { message: unknown }[];
  const texts = shown.map(({ message }) => briefly(message)).join(" · ");
  return `It ended without reading ${count === 1 ? "a message" : `${String(count)} messages`}: ${texts}${shown.length < Number(count) ? " …" : ""}`;
}

function logWords(payload: Record<string, unknown>): string {
  const { message, level: _, ...fields } = payload;
  const more = Object.keys(fields).length > 0 ? `  ${briefly(fields)}` : "";
  return `${typeof message === "string" ? message : briefly(message)}${more}`;
}

function retryWords(payload: Record<string, unknown>): string {
  const delay = typeof payload.delay_s === "number" ? ` in ${length(payload.delay_s * 1_000)}` : "";
  return `Attempt ${String(payload.attempt)} failed: ${errorText(payload.error) ?? ""} It is tried again${delay}.`;
}

function toneOf(level: unknown): Tone {
  if (level === "warning" || level === "warn") return "warning";
  return level === "error" || level === "critical" ? "error" : "plain";
}

function briefly(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value) ?? "";
  return Object.entries(value)
    .map(([name, one]) => `${name} ${typeof one === "object" ? JSON.stringify(one) : String(one)}`)
    .join(", ");
}

function cut(words: string): string {
  if (words.length <= LINE_LENGTH_MAX) return words;
  return `${words.slice(0, LINE_LENGTH_MAX)}… (${words.length.toLocaleString("en")} characters)`;
}
