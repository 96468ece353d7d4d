import { useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "./button.tsx";

/** Name of the button of the latest click, until its page is shown. */
let pressed: "previous" | "next" | null = null;

/** Moves between the pages of a list whose length is unknown. */
export function Pager(props: { page: number; shown: number; next: (() => void) | null; previous: (() => void) | null }) {
  const buttons = useRef<HTMLSpanElement>(null);
  // A list without rows has no pager while it loads, and the last page no next one: the focus
  // returns to the button, or to the other one.
  useLayoutEffect(() => {
    const [previous, next] = buttons.current?.querySelectorAll("button") ?? [];
    const [wanted, other] = pressed === "next" ? [next, previous] : [previous, next];
    if (pressed && document.activeElement === document.body) (wanted?.disabled ? other : wanted)?.focus();
    pressed = null;
  }, [props.page]);
  if (!props.next && !props.previous) return null;
  return (
    <footer class="pager">
      <span class="num" role="status">
        Page {props.page}, {props.shown} rows
      </span>
      <span ref={buttons} class="end row">
        <Button
          size="small"
          icon="left"
          disabled={!props.previous}
          onClick={() => {
            pressed = "previous";
            props.previous?.();
          }}
        >
          Previous
        </Button>
        <Button
          size="small"
          disabled={!props.next}
          onClick={() => {
            pressed = "next";
            props.next?.();
          }}
        >
          Next
        </Button>
      </span>
    </footer>
  );
}
