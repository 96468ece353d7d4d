import type { ComponentChildren } from "preact";

/** Lines of a quote or of a charge: what, how much of it, and its price. */
export function ReceiptBox(props: { children: ComponentChildren }) {
  return <div class="receipt">{props.children}</div>;
}

export function ReceiptRow(props: { label: ComponentChildren; factors?: string; value: string; isSum?: boolean; isMuted?: boolean }) {
  const classes = [props.isSum && "sum", props.isMuted && "muted"].filter(Boolean).join(" ");
  return (
    <div class={classes || undefined}>
      <span>{props.label}</span>
      {props.factors && <span class="q">{props.factors}</span>}
      <i aria-hidden="true" />
      <span>{props.value}</span>
    </div>
  );
}
