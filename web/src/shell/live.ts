// Changes of the account that is shown, as events of the server.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { ApiError, open } from "./api.ts";
import { readEvents } from "./events.ts";

/** Data of the event of each topic. */
export interface LiveData {
  balance: { credits: string; held: string; allowance: string };
  jobs: { unfinished: number; newest: string | null };
  keys: { count: number };
  chats: { count: number; limit: number };
  limits: { state: string };
}

export type Topic = keyof LiveData;

type Listener = (data: never) => void;

const MIN_DELAY_MS = 1000;
const MAX_DELAY_MS = 30_000;

const listeners = new Map<string, Set<Listener>>();

/** Whether changes arrive at the moment. */
export const isLive = signal(false);

/** Number of jobs of the account that are queued or run, at most 200. */
export const unfinishedJobs = signal(0);

/** Calls a listener after each change of a topic, until the returned function is called. */
export function listen<T extends Topic>(topic: T, listener: (data: LiveData[T]) => void): () => void {
  const all = listeners.get(topic) ?? new Set();
  listeners.set(topic, all);
  all.add(listener);
  return () => all.delete(listener);
}

/**
 * Calls a function after changes of a topic while the component is shown: after the first one at
 * once, then at most once per interval.
 */
export function useLive<T extends Topic>(topic: T, onChange: (data: LiveData[T]) => void, intervalMs = 0): void {
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    let last = -Infinity;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = listen(topic, (data) => {
      clearTimeout(timer);
      const call = () => {
        last = performance.now();
        latest.current(data);
      };
      const wait = last + intervalMs - performance.now();
      if (wait > 0) timer = setTimeout(call, wait);
      else call();
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [topic, intervalMs]);
}

/**
 * Follows an account while its page is visible, until the returned function is called. A hidden page
 * holds no connection, because browsers limit their number for HTTP/1.1.
 */
export function follow(account: string): () => void {
  let last = "";
  let abort: AbortController | null = null;
  // The first event of a topic is its state at the beginning, and no change.
  const known = new Set<string>();
  const onVisibility = () => {
    if (document.visibilityState !== "visible") {
      abort?.abort();
      abort = null;
      isLive.value = false;
    } else if (!abort) {
      abort = new AbortController();
      void run(abort.signal);
    }
  };
  const run = async (signal: AbortSignal) => {
    let delay = MIN_DELAY_MS;
    while (!signal.aborted) {
      try {
        const headers = { accept: "text/event-stream", ...(last && { "last-event-id": last }) };
        const response = await open("GET", "/live", { account, signal, headers });
        isLive.value = true;
        for await (const event of readEvents(response)) {
          delay = MIN_DELAY_MS;
          last = event.id ?? last;
          publish(event.type, event.data, known.has(event.type));
          known.add(event.type);
        }
      } catch (error) {
        if (error instanceof ApiError && error.retryAfter) delay = Math.max(delay, error.retryAfter * 1000);
        // The session has ended, or the person was removed; another request shows it.
        if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return;
      } finally {
        if (!signal.aborted) isLive.value = false;
      }
      if (!signal.aborted) await new Promise((done) => setTimeout(done, delay));
      delay = Math.min(delay * 2, MAX_DELAY_MS);
    }
  };
  unfinishedJobs.value = 0;
  onVisibility();
  document.addEventListener("visibilitychange", onVisibility);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    abort?.abort();
    isLive.value = false;
  };
}

function publish(topic: string, text: string, isChange: boolean): void {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    return;
  }
  if (topic === "jobs") unfinishedJobs.value = (data as LiveData["jobs"]).unfinished;
  if (!isChange) return;
  for (const listener of listeners.get(topic) ?? []) (listener as (data: unknown) => void)(data);
}
