import type { ComponentChildren } from "preact";

/** A group of settings, with its explanation beside. */
export function Section(props: { title: string; note: string; children: ComponentChildren }) {
  return (
    <section aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        <p class="muted t12">{props.note}</p>
      </header>
      <div>{props.children}</div>
    </section>
  );
}
