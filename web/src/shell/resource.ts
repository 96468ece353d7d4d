import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { reconnections, toApiError, type ApiError } from "./api.ts";

export interface Resource<T> {
  /** The latest result; it stays while a new one loads. */
  data: T | null;
  error: ApiError | null;
  isLoading: boolean;
  reload: () => void;
  /** Replaces the result, for example by the response of a change. */
  set: (data: T) => void;
}

/** Loads data, and loads it again when `key` changes. A null key loads nothing. */
export function useResource<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const [state, setState] = useState<{ key: string | null; data: T | null; error: ApiError | null; isLoading: boolean }>({
    key,
    data: null,
    error: null,
    isLoading: key !== null,
  });
  const [attempt, setAttempt] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  const reconnected = reconnections.value;
  // A layout effect: the request starts before the browser draws the page.
  useLayoutEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    setState((old) => ({ key, data: old.key === key ? old.data : null, error: null, isLoading: true }));
    loader.current(abort.signal).then(
      (data) => {
        if (!abort.signal.aborted) setState({ key, data, error: null, isLoading: false });
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setState((old) => ({ ...old, error: toApiError(error), isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [key, attempt, reconnected]);
  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    isLoading: isCurrent ? state.isLoading : key !== null,
    reload: () => setAttempt((number) => number + 1),
    set: (data) => setState({ key, data, error: null, isLoading: false }),
  };
}
