import type { ComponentChildren } from "preact";

/** A line of a description: `code` in backticks is its only mark-up. */
export function Line(props: { text: string }) {
  const parts = props.text.replace(/\s*\n\s*/g, " ").split("`");
  return <>{parts.map((part, index): ComponentChildren => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** A description. Empty lines divide its paragraphs. */
export function Prose(props: { text: string }) {
  const paragraphs = props.text.split(/\n\s*\n/).filter((one) => one.trim());
  return (
    <>
      {paragraphs.map((paragraph) => (
        <p key={paragraph}>
          <Line text={paragraph} />
        </p>
      ))}
    </>
  );
}
