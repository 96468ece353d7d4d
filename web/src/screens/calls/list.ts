import { useEffect, useRef, useState } from "preact/hooks";

import { request, toApiError, type ApiError } from "../../shell/api.ts";
import { account } from "../../shell/session.ts";
import type { CallPage, UsageRow } from "../../shell/types.ts";

const PAGE_SIZE = 50;

/**
 * Requests that one search sends at most. Each looks at 10,000 calls at most, so its page can be
 * empty although older calls match.
 */
const MAX_REQUESTS = 8;

const LIVE_MS = 3000;

/** Calls that run for longer than this are missed by the live list, until it loads again. */
const LIVE_OVERLAP_MS = 15 * 60 * 1000;

interface State {
  key: string;
  rows: UsageRow[];
  /** Cursor of the next page; null at the end. */
  next: string | null;
  isLoading: boolean;
  error: ApiError | null;
}

export interface CallList extends Omit<State, "key" | "next"> {
  hasMore: boolean;
  /** Time that the search has reached, if it stopped before it found a page. */
  searchedTo: string | null;
  more: () => void;
  reload: () => void;
}

/** Loads the calls that match a query, page by page, and adds new ones while `isLive`. */
export function useCalls(query: string, isLive: boolean): CallList {
  const key = `${account.value?.id ?? ""} ${query}`;
  const empty: State = { key, rows: [], next: null, isLoading: true, error: null };
  const [state, setState] = useState<State>(empty);
  const [searchedTo, setSearchedTo] = useState<string | null>(null);
  const abort = useRef<AbortController | null>(null);
  const [attempt, setAttempt] = useState(0);

  const load = async (rows: UsageRow[], cursor: string | null): Promise<void> => {
    abort.current?.abort();
    const control = new AbortController();
    abort.current = control;
    const { signal } = control;
    setSearchedTo(null);
    setState({ key, rows, next: cursor, isLoading: true, error: null });
    let found = rows;
    let next = cursor;
    try {
      for (let sent = 0; sent < MAX_REQUESTS; sent += 1) {
        const page = await requestPage(query, next, signal);
        if (signal.aborted) return;
        found = [...found, ...page.data];
        next = page.has_more ? page.next : null;
        const isDone = next === null || found.length - rows.length >= PAGE_SIZE / 2;
        setState({ key, rows: found, next, isLoading: !isDone, error: null });
        if (isDone) return;
      }
      setSearchedTo((next && timeOf(next)) ?? found.at(-1)?.created_at ?? null);
      setState({ key, rows: found, next, isLoading: false, error: null });
    } catch (error) {
      if (!signal.aborted) setState({ key, rows: found, next, isLoading: false, error: toApiError(error) });
    }
  };

  useEffect(() => {
    void load([], null);
    return () => abort.current?.abort();
  }, [key, attempt]);

  const shown = state.key === key ? state : empty;
  const newest = shown.rows[0]?.created_at ?? null;
  const isReady = !shown.isLoading && !shown.error;
  useEffect(() => {
    if (!isLive || !isReady) return undefined;
    const control = new AbortController();
    const timer = setInterval(() => {
      if (document.hidden) return;
      requestNew(query, newest, control.signal).then(
        (rows) => !control.signal.aborted && setState((old) => (old.key === key ? { ...old, rows: merge(rows, old.rows) } : old)),
        // The next attempt reports nothing new either; other requests show the failure.
        () => undefined,
      );
    }, LIVE_MS);
    return () => {
      clearInterval(timer);
      control.abort();
    };
  }, [key, isLive, isReady, newest]);

  return {
    rows: shown.rows,
    isLoading: shown.isLoading,
    error: shown.error,
    hasMore: shown.next !== null,
    searchedTo: isReady ? searchedTo : null,
    more: () => void load(shown.rows, shown.next),
    reload: () => (shown.rows.length > 0 ? void load(shown.rows, shown.next) : setAttempt(attempt + 1)),
  };
}

function requestPage(query: string, after: string | null, signal: AbortSignal): Promise<CallPage> {
  const params = new URLSearchParams(query);
  params.set("limit", String(PAGE_SIZE));
  if (after) params.set("after", after);
  return request<CallPage>("GET", `/calls?${params.toString()}`, { account: true, signal });
}

async function requestNew(query: string, newest: string | null, signal: AbortSignal): Promise<UsageRow[]> {
  const params = new URLSearchParams(query);
  params.set("limit", String(PAGE_SIZE));
  const start = Date.parse(params.get("from") ?? "") || 0;
  if (newest) params.set("from", new Date(Math.max(start, Date.parse(newest) - LIVE_OVERLAP_MS)).toISOString());
  return (await request<CallPage>("GET", `/calls?${params.toString()}`, { account: true, signal })).data;
}

/** Adds rows that the list does not have, the newest first. */
function merge(rows: UsageRow[], old: UsageRow[]): UsageRow[] {
  const known = new Set(old.map((row) => row.id));
  const added = rows.filter((row) => !known.has(row.id));
  if (added.length === 0) return old;
  return [...added, ...old].sort((a, b) => b.created_at.localeCompare(a.created_at));
}

/** Earliest time that a cursor can have: 2020. */
const MIN_TIME_MS = 1_577_836_800_000;

/** Returns the time in a cursor that ends with a UUIDv7; null for other cursors. */
function timeOf(cursor: string): string | null {
  const digits = /([0-9a-f]{12})[0-9a-f]{20}$/.exec(cursor.replaceAll("-", ""))?.[1];
  const ms = Number.parseInt(digits ?? "", 16);
  return ms >= MIN_TIME_MS && ms <= Date.now() + 86_400_000 ? new Date(ms).toISOString() : null;
}
