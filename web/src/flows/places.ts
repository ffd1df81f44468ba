/**
 * Where in a JSON text everything stands, under the paths that the server uses
 * (`nodes.a.prep`, `nodes["a b"]`, `edges[3].to`); or where it stops being JSON.
 */
export interface Text {
  spots: Map<string, Spot>;
  /** Null: it is JSON. */
  error: { at: number; problem: string } | null;
}

/** From its first character to the one behind its last. */
export interface Spot {
  from: number;
  to: number;
}

const DEPTH_MAX = 200;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/;
const SHOWN_LENGTH_MAX = 60;
const LAST_PART = /(\.[A-Za-z_][A-Za-z0-9_-]*|\["(?:[^"\\]|\\.)*"\]|\[\d+\])$/;
const BLANK = /[ \t\n\r]*/y;
const WORD = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// eslint-disable-next-line no-control-regex -- JSON itself forbids them.
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

class Reader {
  readonly spots = new Map<string, Spot>();
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): void {
    this.value("", 0);
    this.skip();
    if (this.at < this.text.length) this.refuse("There is something after the end of the definition.");
  }

  private value(path: string, depth: number): void {
    if (depth > DEPTH_MAX) this.refuse("This is nested too deep.");
    this.skip();
    const from = this.at;
    const sign = this.text[from];
    if (sign === "{") this.members(path, depth);
    else if (sign === "[") this.items(path, depth);
    else if (sign === '"') this.string();
    else if (this.taken(WORD) === null) this.refuse(from >= this.text.length ? "The text ends too early." : "A value is expected here.");
    this.spots.set(path, { from, to: this.at });
  }

  private members(path: string, depth: number): void {
    this.at += 1;
    for (let isFirst = true; !this.ends("}"); isFirst = false) {
      if (!isFirst) this.expect(",", "A comma is missing before this.");
      this.skip();
      const from = this.at;
      const name = this.string();
      this.skip();
      this.expect(":", "A colon is missing here.");
      const inner = memberPath(path, name);
      this.value(inner, depth + 1);
      const spot = this.spots.get(inner) as Spot;
      this.spots.set(inner, { from, to: spot.to });
    }
  }

  private items(path: string, depth: number): void {
    this.at += 1;
    for (let index = 0; !this.ends("]"); index += 1) {
      if (index > 0) this.expect(",", "A comma is missing before this.");
      this.value(`${path}[${index}]`, depth + 1);
    }
  }

  private ends(sign: string): boolean {
    this.skip();
    if (this.at >= this.text.length) this.refuse(`The text ends too early: a “${sign}” is missing.`);
    if (this.text[this.at] !== sign) return false;
    this.at += 1;
    return true;
  }

  private expect(sign: string, problem: string): void {
    this.skip();
    if (this.text[this.at] !== sign) this.refuse(problem);
    this.at += 1;
  }

  private string(): string {
    const found = this.taken(STRING);
    if (found !== null) return JSON.parse(found) as string;
    return this.refuse(this.text[this.at] === '"' ? "This text has no end, or a character in it that must be escaped." : "A name in double quotes is expected here.");
  }

  private skip(): void {
    this.taken(BLANK);
  }

  private taken(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) return null;
    this.at = pattern.lastIndex;
    return found[0];
  }

  private refuse(problem: string): never {
    throw new NotJson(Math.min(this.at, this.text.length), problem);
  }
}

class NotJson extends Error {
  constructor(
    readonly at: number,
    problem: string,
  ) {
    super(problem);
  }
}

export function readText(text: string): Text {
  const reader = new Reader(text);
  try {
    reader.whole();
    return { spots: reader.spots, error: null };
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    return { spots: reader.spots, error: { at: error.at, problem: error.message } };
  }
}

function memberPath(path: string, name: string): string {
  if (PLAIN_NAME.test(name)) return path === "" ? name : `${path}.${name}`;
  const cut = [...name].length <= SHOWN_LENGTH_MAX ? name : `${[...name].slice(0, SHOWN_LENGTH_MAX).join("")}…`;
  return `${path}["${cut.replaceAll('"', '\\"')}"]`;
}

/** The spot of a path; for a missing member, the spot of the object that lacks it. */
export function spotOf(text: Text, path: string): Spot | null {
  for (let wanted = path; wanted !== ""; wanted = wanted.replace(LAST_PART, "")) {
    const spot = text.spots.get(wanted);
    if (spot) return spot;
    if (!LAST_PART.test(wanted)) break;
  }
  return text.spots.get("") ?? null;
}

/** From 1. */
export function lineOf(text: string, at: number): number {
  let line = 1;
  for (let next = text.indexOf("\n"); next !== -1 && next < at; next = text.indexOf("\n", next + 1)) line += 1;
  return line;
}
