/** What a flow reads of its parameters: the names after `$params.`, wherever it says them. */
import type { Schema } from "../form/schema";
import { objectOf } from "./graph";

const NAME = /^\$params\.([^.[\]]+)/;

export function parameterSchema(definition: unknown): Schema {
  const users = new Map<string, Set<string>>();
  gather(definition, users);
  const properties = Object.fromEntries(
    [...users].map(([name, nodes]) => [name, { title: name, format: "anything", description: `for ${[...nodes].slice(0, 3).join(", ")}${nodes.size > 3 ? " and more" : ""}` }]),
  );
  return { type: "object", properties };
}

function gather(definition: unknown, users: Map<string, Set<string>>): void {
  for (const [key, value] of Object.entries(objectOf(objectOf(definition).nodes))) {
    const { subflow, ...node } = objectOf(value);
    const own = new Set(Object.keys(objectOf(node.params)));
    for (const name of namesIn(node)) {
      if (own.has(name)) continue; // The node's own parameter wins over the task's.
      users.set(name, (users.get(name) ?? new Set()).add(key));
    }
    if (subflow !== undefined) gather(subflow, users);
  }
}

function* namesIn(value: unknown): Generator<string> {
  const waiting = [value];
  while (waiting.length > 0) {
    const one = waiting.pop();
    if (typeof one === "string") {
      const name = NAME.exec(one)?.[1];
      if (name !== undefined) yield name;
    } else if (typeof one === "object" && one !== null) waiting.push(...Object.values(one));
  }
}
