import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { Button } from "./button.tsx";
import { notifyFailure } from "./toast.tsx";

const CONFIRMED_MS = 2000;

function useCopy(text: string): [boolean, () => void] {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), CONFIRMED_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => {
    navigator.clipboard
      .writeText(text)
      .then(() => setCopied(true))
      .catch((error: unknown) => notifyFailure("Not copied", error));
  };
  return [isCopied, copy];
}

export function CopyButton(props: { text: string; label?: string; kind?: "primary" | "bare"; children?: ComponentChildren }) {
  const [isCopied, copy] = useCopy(props.text);
  return (
    <>
      <Button
        kind={props.kind ?? "bare"}
        {...(props.kind === "primary" ? {} : { size: "small" as const })}
        icon={isCopied ? "check" : "copy"}
        {...(props.children ? {} : { label: props.label ?? "Copy" })}
        onClick={copy}
      >
        {props.children && (isCopied ? "Copied" : props.children)}
      </Button>
      <span class="sr" role="status">
        {isCopied ? "Copied" : ""}
      </span>
    </>
  );
}

/** A block of code with its language. `text` is what Copy copies. */
export function Code(props: {
  language: string;
  text: string;
  /** Replaces the language in the header. */
  header?: ComponentChildren;
  /** A second line of the header. */
  subheader?: ComponentChildren;
  footer?: ComponentChildren;
  /** Whether the text can be long, and then scrolls. */
  isTall?: boolean;
  /** Whether long lines wrap. */
  isWrapped?: boolean;
  children?: ComponentChildren;
}) {
  return (
    <div class={["code", props.isTall && "tall", props.isWrapped && "wrap"].filter(Boolean).join(" ")}>
      <header>
        {props.header ?? <span class="t12 strong">{props.language}</span>}
        <span class="end" />
        <CopyButton text={props.text}>Copy</CopyButton>
      </header>
      {props.subheader && <header>{props.subheader}</header>}
      <pre tabIndex={0} aria-label={props.language}>
        {props.children ?? props.text}
      </pre>
      {props.footer && <footer>{props.footer}</footer>}
    </div>
  );
}

/** A secret that is shown once. */
export function Secret(props: { text: string }) {
  return (
    <div class="secret">
      <code>{props.text}</code>
      <CopyButton text={props.text} kind="primary">
        Copy
      </CopyButton>
    </div>
  );
}
