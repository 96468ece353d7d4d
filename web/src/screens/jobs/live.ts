import { useEffect, useRef, useState } from "preact/hooks";

import { ApiError, open, PUBLIC_API } from "../../shell/api.ts";
import { readEvents } from "../../shell/events.ts";

export interface JobEvent {
  sequence: number;
  type: string;
  created_at: string;
  phase?: string | null;
  progress?: number | null;
  queue_position?: number | null;
  /** Members of the events of one kind of job. */
  [name: string]: unknown;
}

const FINAL = ["job.completed", "job.failed", "job.cancelled", "job.expired"];

const MAX_DELAY_MS = 30_000;

/** Streams the events of a job until it has ended, and continues after an interruption. */
export function useJobEvents(id: string, onEnd: () => void): JobEvent[] {
  const [events, setEvents] = useState<JobEvent[]>([]);
  const latest = useRef(onEnd);
  latest.current = onEnd;
  useEffect(() => {
    const abort = new AbortController();
    follow(id, abort.signal, (event) => {
      setEvents((old) => [...old, event]);
      if (FINAL.includes(event.type)) latest.current();
    }).catch(() => undefined);
    return () => abort.abort();
  }, [id]);
  return events;
}

async function follow(id: string, signal: AbortSignal, onEvent: (event: JobEvent) => void): Promise<void> {
  let last = 0;
  let delay = 1000;
  while (!signal.aborted) {
    try {
      const response = await open("GET", `${PUBLIC_API}/jobs/${encodeURIComponent(id)}/events`, {
        account: true,
        signal,
        headers: { accept: "text/event-stream", ...(last > 0 ? { "last-event-id": String(last) } : {}) },
      });
      for await (const { data } of readEvents(response)) {
        const event = parse(data);
        if (!event || event.sequence <= last) continue;
        last = event.sequence;
        delay = 1000;
        onEvent(event);
        if (FINAL.includes(event.type)) return;
      }
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
      if (isRefused) return;
    }
    await new Promise((done) => setTimeout(done, delay));
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }
}

function parse(data: string): JobEvent | null {
  try {
    const event = JSON.parse(data) as JobEvent;
    return typeof event.sequence === "number" && typeof event.type === "string" ? event : null;
  } catch {
    return null;
  }
}
