import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import { Icon } from "./icon.tsx";

// A field that is sized by its content ignores the number of rows.
const LINE_PX = 20;
const PADDING_PX = 14;

/** A text of several lines with its label above. It grows with its text. */
export function TextArea(props: {
  label: string;
  value: string;
  onInput: (value: string) => void;
  /** Shown beside the label, such as a count. */
  note?: ComponentChildren;
  hint?: ComponentChildren;
  error?: string | null;
  placeholder?: string;
  /** Minimum number of lines. */
  rows?: number;
  isCode?: boolean;
  disabled?: boolean;
  maxLength?: number;
  onKeyDown?: (event: KeyboardEvent) => void;
}) {
  const id = useId();
  const described = props.error ? `${id}-error` : props.hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <span class="lab">
        <label for={id}>{props.label}</label>
        {props.note && <span class="muted num">{props.note}</span>}
      </span>
      <div class="in area">
        <textarea
          id={id}
          class={props.isCode ? "mono" : undefined}
          rows={props.rows ?? 3}
          style={{ "min-height": `${(props.rows ?? 3) * LINE_PX + PADDING_PX}px` }}
          value={props.value}
          placeholder={props.placeholder}
          spellcheck={!props.isCode}
          disabled={props.disabled}
          maxLength={props.maxLength}
          aria-invalid={props.error ? "true" : undefined}
          aria-describedby={described}
          onInput={(event) => props.onInput(event.currentTarget.value)}
          onKeyDown={props.onKeyDown}
        />
      </div>
      {props.error ? (
        <p class="hint bad" id={described} role="alert">
          <Icon name="warning" small />
          <span>{props.error}</span>
        </p>
      ) : (
        props.hint && (
          <p class="hint" id={described}>
            {props.hint}
          </p>
        )
      )}
    </div>
  );
}
