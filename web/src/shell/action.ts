import { useState } from "preact/hooks";

import { toApiError, type ApiError } from "./api.ts";

interface Action {
  isBusy: boolean;
  error: ApiError | null;
  /** Runs an action, unless one runs already. */
  run: (action: () => Promise<void>) => void;
}

/** Runs an action once at a time, and keeps its error. The action closes the dialog if it succeeds. */
export function useAction(): Action {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const run = (action: () => Promise<void>) => {
    if (isBusy) return;
    setBusy(true);
    setError(null);
    action().catch((failure: unknown) => {
      const found = toApiError(failure);
      // A cancelled request for the password is no failure.
      setError(found.param === "step_up" ? null : found);
      setBusy(false);
    });
  };
  return { isBusy, error, run };
}
