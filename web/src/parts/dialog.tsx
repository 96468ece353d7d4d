import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";

interface DialogProps {
  title: string;
  icon?: ComponentChildren;
  isSmall?: boolean;
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

/** Sets the focus on the element that asks for it. */
export function focusFirst(container: HTMLElement | null): void {
  container?.querySelector<HTMLElement>("[data-autofocus]")?.focus();
}

/** A modal dialog: the browser keeps the focus inside, and returns it afterwards. */
export function Dialog(props: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const escapes = useRef(0);
  const title = useId();
  const { onClose, onSubmit, isSecret } = props;
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    focusFirst(dialog);
    return () => {
      dialog?.close();
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  const escape = (event: Event) => {
    event.preventDefault();
    escapes.current += 1;
    if (!isSecret || escapes.current > 1) onClose();
  };
  const content = (
    <>
      <header>
        {props.icon}
        <h2 id={title}>{props.title}</h2>
      </header>
      <div class="body">{props.children}</div>
      <footer>{props.footer}</footer>
    </>
  );
  return (
    <dialog
      ref={element}
      class={["dialog", props.isSmall && "sm", props.isAlone && "alone"].filter(Boolean).join(" ")}
      aria-labelledby={title}
      onKeyDown={(event) => {
        if (event.key !== "Escape") {
          escapes.current = 0;
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
