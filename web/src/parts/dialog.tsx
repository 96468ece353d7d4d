import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

import { returnFocus } from "./focus.ts";

interface DialogProps {
  title: string;
  icon?: ComponentChildren;
  size?: "small" | "large";
  /** Fills the right edge of the window. */
  isSide?: boolean;
  /** Hides another open dialog until this one closes. */
  isAlone?: boolean;
  children: ComponentChildren;
  footer: ComponentChildren;
  onClose: () => void;
  /** Makes the content a form. */
  onSubmit?: () => void;
  /** Shows something that cannot be shown again: only a button, or Esc twice, closes it. */
  isSecret?: boolean;
}

const SIZES = { small: "sm", large: "lg" };

/** Sets the focus on the element that asks for it. */
export function focusFirst(container: HTMLElement | null): void {
  container?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
}

/** A modal dialog: the browser keeps the focus inside, and returns it afterwards. */
export function Dialog(props: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const [escapes, setEscapes] = useState(0);
  const title = useId();
  const { onClose, onSubmit, isSecret } = props;
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    focusFirst(dialog);
    return () => {
      dialog?.close();
      returnFocus(opener);
    };
  }, []);
  const escape = (event: Event) => {
    event.preventDefault();
    setEscapes(escapes + 1);
    if (!isSecret || escapes > 0) onClose();
  };
  const content = (
    <>
      <header>
        {props.icon}
        <h2 id={title}>{props.title}</h2>
      </header>
      <div class="body">{props.children}</div>
      <footer>
        {isSecret && (
          <span class="muted t12 grow wideonly" role="status">
            {escapes > 0 ? "Press Esc again to close." : "Press Esc twice to close without copying."}
          </span>
        )}
        {props.footer}
      </footer>
    </>
  );
  const classes = ["dialog", props.size && SIZES[props.size], props.isSide && "panel", props.isAlone && "alone"];
  return (
    <dialog
      ref={element}
      class={classes.filter(Boolean).join(" ")}
      aria-labelledby={title}
      onKeyDown={(event) => {
        if (event.key !== "Escape") {
          setEscapes(0);
          return;
        }
        event.stopPropagation();
        escape(event);
      }}
      onCancel={escape}
      onMouseDown={(event) => {
        if (!isSecret && !onSubmit && event.target === element.current) onClose();
      }}
    >
      {onSubmit ? (
        <form
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          {content}
        </form>
      ) : (
        <div class="form">{content}</div>
      )}
    </dialog>
  );
}
