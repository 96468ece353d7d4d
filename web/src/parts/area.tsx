import { useId } from "preact/hooks";

import { Icon } from "./icon.tsx";

/** A field for several lines of code, with its label above. */
export function CodeArea(props: {
  label: string;
  value: string;
  rows: number;
  error?: string | null;
  onInput: (value: string) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <div class="in area">
        <textarea
          id={id}
          rows={props.rows}
          value={props.value}
          spellcheck={false}
          autocapitalize="none"
          autocomplete="off"
          aria-invalid={props.error ? "true" : undefined}
          aria-describedby={props.error ? `${id}-error` : undefined}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      </div>
      {props.error && (
        <p class="hint bad" id={`${id}-error`} role="alert">
          <Icon name="warning" small />
          <span>{props.error}</span>
        </p>
      )}
    </div>
  );
}
