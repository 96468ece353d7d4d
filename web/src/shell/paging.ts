import { useState } from "preact/hooks";

import { isOperator, request } from "./api.ts";
import { useResource, type Resource } from "./resource.ts";
import type { List } from "./types.ts";

interface Paged<T> {
  list: Resource<List<T>>;
  /** Number of the page, from 1. */
  page: number;
  next: (() => void) | null;
  previous: (() => void) | null;
}

/** Loads a list page by page, by the id of the last row of the page before. */
export function usePaged<T extends { id: string }>(path: string, query: Record<string, string>, limit: number): Paged<T> {
  const key = `${path}?${new URLSearchParams(query).toString()}`;
  const [state, setState] = useState<{ key: string; cursors: string[] }>({ key, cursors: [] });
  const cursors = state.key === key ? state.cursors : [];
  const after = cursors[cursors.length - 1];
  const params = new URLSearchParams({ ...query, limit: String(limit), ...(after ? { after } : {}) });
  const address = `${path}?${params.toString()}`;
  const list = useResource(address, (signal) => request<List<T>>("GET", address, { account: !isOperator, signal }));
  const last = list.data?.data.at(-1)?.id;
  return {
    list,
    page: cursors.length + 1,
    next: list.data?.has_more && last ? () => setState({ key, cursors: [...cursors, last] }) : null,
    previous: cursors.length > 0 ? () => setState({ key, cursors: cursors.slice(0, -1) }) : null,
  };
}
