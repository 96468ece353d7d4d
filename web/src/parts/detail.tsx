import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

import { Button } from "./button.tsx";
import { returnFocus } from "./focus.ts";

/** A list, and beside it the details of its selected row. On phones the details cover the list. */
export function Split(props: { children: ComponentChildren; detail?: ComponentChildren }) {
  return (
    <div class={props.detail ? "split opened" : "split"}>
      <div class="lst">{props.children}</div>
      {props.detail}
    </div>
  );
}

/** The details of the selected row of a `Split`. Esc closes them. */
export function Detail(props: {
  title: ComponentChildren;
  note?: ComponentChildren;
  children: ComponentChildren;
  footer?: ComponentChildren;
  onClose: () => void;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  const opener = useRef(document.activeElement);
  const { onClose } = props;
  // A layout effect: the details of another row take the focus after these have returned it.
  useLayoutEffect(() => {
    heading.current?.focus({ preventScroll: true });
    return () => returnFocus(opener.current);
  }, []);
  return (
    <section
      class="pane"
      aria-label="Details"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <div class="grow stack g4">
          <h2 ref={heading} tabIndex={-1} class="row wrap">
            {props.title}
          </h2>
          {props.note && <div class="muted t12 row wrap g4">{props.note}</div>}
        </div>
        <Button kind="bare" size="small" icon="close" label="Close the details" onClick={onClose} />
      </header>
      <div class="body">{props.children}</div>
      {props.footer && <footer>{props.footer}</footer>}
    </section>
  );
}

/** A titled part of the details. */
export function DetailPart(props: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="stack">
      <header class="row between">
        <h3>{props.title}</h3>
        {props.note && <span class="muted t12 num">{props.note}</span>}
      </header>
      {props.children}
    </section>
  );
}
