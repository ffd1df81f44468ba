/** Server-sent events out of a body, pings included, so that silence can be told from peace. */
interface Sent {
  event: string;
  data: string;
}

export async function* readEvents(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Sent | "ping"> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) yield parsed(block) ?? "ping";
  }
}

function parsed(block: string): Sent | null {
  let event = "message";
  let data: string | null = null;
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data = line.slice("data: ".length);
    else if (line.startsWith("event: ")) event = line.slice("event: ".length);
  }
  return data === null ? null : { event, data };
}
