import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { toApiError } from "../shell/api.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";

interface ToastItem {
  id: number;
  text: string;
  isFailure: boolean;
  requestId: string | null;
}

const SHOWN_MS = 6000;

const toasts = signal<ToastItem[]>([]);
let last = 0;

function show(text: string, isFailure: boolean, requestId: string | null): void {
  last += 1;
  const id = last;
  toasts.value = [...toasts.value.slice(-2), { id, text, isFailure, requestId }];
  if (!isFailure) setTimeout(() => dismiss(id), SHOWN_MS);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Reports the result of an action, for six seconds. */
export function notify(text: string): void {
  show(text, false, null);
}

/** Reports a failed action until it is dismissed. */
export function notifyFailure(what: string, error: unknown): void {
  const failure = toApiError(error);
  show(`${what}. ${failure.message}`, true, failure.requestId);
}

/** The place of all toasts. It is in the top layer, so that dialogs do not cover it. */
export function Toasts() {
  const element = useRef<HTMLDivElement>(null);
  const items = toasts.value;
  useEffect(() => {
    const layer = element.current;
    if (!layer) return;
    if (layer.matches(":popover-open")) layer.hidePopover();
    if (items.length > 0) layer.showPopover();
  }, [items]);
  return (
    <div ref={element} popover="manual" class="toasts" role="status" aria-live="polite">
      {items.map((toast) => (
        <div key={toast.id} class="toast">
          <span class={toast.isFailure ? "bad" : "ok"}>
            <Icon name={toast.isFailure ? "warning" : "check"} />
          </span>
          <span class="grow">
            {toast.text}
            {toast.requestId && <span class="muted t12 mono breakable"> {toast.requestId}</span>}
          </span>
          <Button kind="bare" size="small" icon="close" label="Dismiss" onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}
