// Server-sent events by `fetch`, because `EventSource` can send no headers.

export interface ServerEvent {
  id: string | null;
  type: string;
  data: string;
}

/** Yields the events of a response until it ends. */
export async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function parse(block: string): ServerEvent | null {
  let id: string | null = null;
  let type = "message";
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
    if (name === "id") id = value ?? "";
    else if (name === "event") type = value ?? "";
    else if (name === "data") data.push(value ?? "");
  }
  return data.length > 0 ? { id, type, data: data.join("\n") } : null;
}
