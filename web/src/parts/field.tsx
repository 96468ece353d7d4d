import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

import { Icon } from "./icon.tsx";

interface FieldProps {
  label: string;
  value: string;
  onInput: (value: string) => void;
  type?: "text" | "email" | "password";
  name?: string;
  autocomplete?: string;
  hint?: ComponentChildren;
  error?: string | null;
  isLarge?: boolean;
  disabled?: boolean;
  required?: boolean;
  autoFocus?: boolean;
  maxLength?: number;
  children?: ComponentChildren;
}

/** A text field with its label above. Passwords can be shown. */
export function Field(props: FieldProps) {
  const id = useId();
  const [isShown, setShown] = useState(false);
  const isPassword = props.type === "password";
  const type = isPassword && isShown ? "text" : (props.type ?? "text");
  const note = props.error ? `${id}-error` : props.hint ? `${id}-hint` : undefined;
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <div class={props.isLarge ? "in lgf" : "in"}>
        <input
          id={id}
          name={props.name}
          type={type as "text"}
          value={props.value}
          autocomplete={props.autocomplete ?? "off"}
          autocapitalize={props.type === "email" ? "none" : undefined}
          spellcheck={props.type === undefined ? undefined : false}
          disabled={props.disabled}
          required={props.required}
          maxLength={props.maxLength}
          aria-invalid={props.error ? "true" : undefined}
          aria-describedby={note}
          data-autofocus={props.autoFocus ? "" : undefined}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
        {isPassword && (
          <button type="button" class="inside" aria-pressed={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? "Hide" : "Show"}
            <span class="sr"> password</span>
          </button>
        )}
      </div>
      {props.error ? (
        <p class="hint bad" id={note} role="alert">
          <Icon name="warning" small />
          <span>{props.error}</span>
        </p>
      ) : (
        props.hint && (
          <p class="hint" id={note}>
            {props.hint}
          </p>
        )
      )}
      {props.children}
    </div>
  );
}

/** A small field that filters a list. */
export function SearchField(props: { label: string; value: string; onInput: (value: string) => void }) {
  return (
    <div class="in soft sm">
      <Icon name="search" />
      <input
        type="search"
        aria-label={props.label}
        placeholder={props.label}
        autocomplete="off"
        spellcheck={false}
        value={props.value}
        onInput={(event) => props.onInput(event.currentTarget.value)}
      />
    </div>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  note?: string;
  disabled?: boolean;
}

/** Radio buttons with an explanation each. */
export function Choices<T extends string>(props: {
  label: string;
  value: T;
  choices: readonly Choice<T>[];
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="stack g4">
      <legend class="lab">{props.label}</legend>
      <div class="choices">
        {props.choices.map((choice) => (
          <label key={choice.value}>
            <input
              type="radio"
              name={name}
              value={choice.value}
              checked={choice.value === props.value}
              disabled={choice.disabled}
              onChange={() => props.onChange(choice.value)}
            />
            <span class="strong5">{choice.label}</span>
            {choice.note && <span class="muted t12">{choice.note}</span>}
          </label>
        ))}
      </div>
    </fieldset>
  );
}
