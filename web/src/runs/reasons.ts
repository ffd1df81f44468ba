/** Why a run ended as it did, in one line. */
import type { LiveRun } from "../stream/model";

const LINE_LENGTH_MAX = 300;
/** The text for runs that an older version of headway has ended. */
export const TOO_LONG = "It exceeded its time limit.";

export function errorText(error: unknown): string | null {
  if (error === null || error === undefined) return null;
  if (typeof error === "string") return error;
  if (typeof error === "object") {
    const { message, code, reason } = error as Record<string, unknown>;
    if (typeof message === "string" && message !== "") return message;
    if (typeof reason === "string" && reason !== "") return reason;
    if (typeof code === "string") return code;
  }
  return JSON.stringify(error);
}

export function reasonOfEnd(run: Pick<LiveRun, "status" | "error">): string | null {
  if (run.status === "rejected") return "It was refused, and nobody was there to be told.";
  if (run.status !== "failed" && run.status !== "timed_out") return null;
  const text = errorText(run.error) ?? (run.status === "failed" ? "It failed without an error message." : TOO_LONG);
  const [line] = text.split("\n", 1);
  return (line ?? "").slice(0, LINE_LENGTH_MAX);
}
