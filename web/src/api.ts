/** Calls to the server: an answer, or a Refusal that says why in one sentence. */
import { QueryClient } from "@tanstack/react-query";
import { client } from "./client/client.gen";
import { live } from "./live";
import { serverAddress } from "./origin";

export interface Issue {
  path: string;
  problem: string;
}

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly issues: Issue[] = [],
    /** All members of the server's problem document. */
    readonly problem: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

interface Answered<T> {
  data?: T | undefined;
  error?: unknown;
  response?: Response | undefined;
}

/** What was answered; throws a Refusal for anything but a success. */
export async function answerOf<T>(call: Promise<Answered<T>>): Promise<T> {
  const { data, error, response } = await call;
  if (response?.ok) return data as T;
  if (response === undefined) {
    throw new Refusal(0, "unreachable", "The server does not answer. Nothing is known to have changed; try again.");
  }
  if (response.status === 401) live.ask({ kind: "retry" }); // Which finds that nobody is signed in.
  const problem = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const detail = typeof problem.detail === "string" ? problem.detail : `The server answered ${response.status}.`;
  const code = typeof problem.code === "string" ? problem.code : "unknown";
  throw new Refusal(response.status, code, sentence(detail), Array.isArray(problem.errors) ? (problem.errors as Issue[]) : [], problem);
}

/** Somebody else has answered already, or nobody asks any more. */
export function isTooLate(error: unknown): boolean {
  return error instanceof Refusal && error.code === "stale";
}

export function sentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(capital) ? capital : `${capital}.`;
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

client.setConfig({ baseUrl: serverAddress(location.href), throwOnError: false });

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      refetchOnWindowFocus: false,
      retry: (count, error) => count < 3 && !(error instanceof Refusal && error.status > 0 && error.status < 500),
    },
  },
});
