/** What can be done with a row. Whatever is refused is told on the row. */
import { answerOf, Refusal } from "../api";
import { cancel, deleteKey, saveKey, submit } from "../client";
import type { Values } from "../form/SchemaForm";
import { live } from "../live";
import { pasted } from "./clipboard";
import type { Existing } from "./ExistingOutput";
import { note, noteOf, noteRefusal, revisionOf } from "./notes";

/** Runs `act`, with the row's buttons out of use meanwhile; false: it was refused. */
async function doing(key: string, act: () => Promise<void>): Promise<boolean> {
  note(key, { isBusy: true, reason: null, problems: {} });
  try {
    await act();
    return true;
  } catch (error) {
    if (error instanceof Refusal && error.code === "output_exists") note(key, { existing: error.message });
    else noteRefusal(key, error);
    return false;
  } finally {
    note(key, { isBusy: false });
  }
}

/** Keep what was typed. If somebody else has changed the row since it was begun, it is refused. */
async function saveDraft(key: string, job: string): Promise<void> {
  const { draft, base, faulty } = noteOf(key);
  if (faulty !== null) throw new Refusal(422, "not_json", `${faulty} is not JSON yet: correct it, or undo what was typed.`);
  if (draft === null) return;
  await put(key, job, draft, base);
  note(key, { draft: null });
}

async function put(key: string, job: string, params: Values, revision: number): Promise<void> {
  const saved = await answerOf(saveKey({ path: { key }, body: { job, params }, headers: { "if-match": `"${revision}"` } }));
  live.putKey(saved);
}

/** Add a row; refused if the key has one already. */
export function add(key: string, job: string, params: Values): Promise<void> {
  return put(key, job, params, 0);
}

export function save(key: string, job: string): Promise<boolean> {
  return doing(key, () => saveDraft(key, job));
}

/** `values` are for a key that has no saved row: those of its last run. */
export function start(key: string, job: string, mode: "start" | "continue", values: Values, existing?: Existing): Promise<boolean> {
  return doing(key, async () => {
    await saveDraft(key, job);
    const params = (live.keys.get(key)?.params ?? values) as Values;
    const body = { job, key, mode, params, ...(existing ? { on_existing_output: existing } : {}) };
    live.put(await answerOf(submit({ body })));
    note(key, { existing: null });
  });
}

export function stop(key: string, run_id: string, files: "keep" | "delete"): Promise<boolean> {
  return doing(key, async () => {
    await answerOf(cancel({ path: { run_id }, body: { files } }));
  });
}

/** All parameters, and never the identity: key and job stay (R1.12). */
export function paste(key: string, job: string, values: Values): Promise<boolean> {
  return doing(key, async () => {
    await put(key, job, pasted(values, (live.keys.get(key)?.params ?? {}) as Values), revisionOf(key));
    note(key, { draft: null });
  });
}

export function remove(key: string): Promise<boolean> {
  return doing(key, async () => {
    await answerOf(deleteKey({ path: { key } }));
  });
}
