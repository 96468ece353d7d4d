import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

import { size } from "../shell/format.ts";
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
  /** Whether the value is a whole number. */
  isNumber?: boolean;
  /** Id of a list of suggestions. */
  list?: string;
  /** Unit after the value, such as `days`. */
  unit?: string;
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
          list={props.list}
          inputMode={props.isNumber ? "numeric" : undefined}
          aria-invalid={props.error ? "true" : undefined}
          aria-describedby={note}
          data-autofocus={props.autoFocus ? "" : undefined}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
        {props.unit && <span class="muted">{props.unit}</span>}
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

/** Radio buttons in one row, for a few short options. */
export function Options<T extends string>(props: {
  label: string;
  value: T;
  options: readonly { value: T; label: string }[];
  hint?: ComponentChildren;
  onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="stack g4" aria-describedby={props.hint ? `${name}-hint` : undefined}>
      <legend class="lab">{props.label}</legend>
      <div class="seg options">
        {props.options.map((option) => (
          <label key={option.value}>
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === props.value}
              onChange={() => props.onChange(option.value)}
            />
            {option.label}
          </label>
        ))}
      </div>
      {props.hint && (
        <p class="hint" id={`${name}-hint`}>
          {props.hint}
        </p>
      )}
    </fieldset>
  );
}

/** A checkbox with an explanation. */
export function Check(props: { label: string; note: string; value: boolean; onChange: (value: boolean) => void }) {
  const id = useId();
  return (
    <div class="choices">
      <label>
        <input
          type="checkbox"
          checked={props.value}
          aria-labelledby={`${id}-label`}
          aria-describedby={`${id}-note`}
          onChange={(event) => props.onChange(event.currentTarget.checked)}
        />
        <span class="strong5" id={`${id}-label`}>
          {props.label}
        </span>
        <span class="muted t12" id={`${id}-note`}>
          {props.note}
        </span>
      </label>
    </div>
  );
}

/** Chooses one of several values. */
export function Select<T extends string>(props: {
  label: string;
  value: T;
  options: readonly { value: T; label: string }[];
  hint?: ComponentChildren;
  disabled?: boolean;
  onChange: (value: T) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <div class="in">
        <select
          id={id}
          value={props.value}
          disabled={props.disabled}
          aria-describedby={props.hint ? `${id}-hint` : undefined}
          onChange={(event) => props.onChange(event.currentTarget.value as T)}
        >
          {props.options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
        <Icon name="down" small />
      </div>
      {props.hint && (
        <p class="hint" id={`${id}-hint`}>
          {props.hint}
        </p>
      )}
    </div>
  );
}

/** Takes a file from the file dialog of the browser, or by dragging. */
export function FileField(props: {
  label: string;
  file: File | null;
  accept?: string;
  hint?: ComponentChildren;
  error?: string | null;
  disabled?: boolean;
  onChange: (file: File) => void;
}) {
  const id = useId();
  const [isOver, setOver] = useState(false);
  const note = props.error ? `${id}-error` : props.hint ? `${id}-hint` : undefined;
  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file && !props.disabled) props.onChange(file);
  };
  return (
    <div class="field">
      <span class="lab">{props.label}</span>
      <label
        class={isOver ? "drop over-drop" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          take(event.dataTransfer?.files);
        }}
      >
        <input
          id={id}
          type="file"
          class="sr"
          accept={props.accept}
          disabled={props.disabled}
          aria-label={props.label}
          aria-invalid={props.error ? "true" : undefined}
          aria-describedby={note}
          data-autofocus=""
          // A closed file dialog is no request to close the dialog around this field.
          onCancel={(event) => event.stopPropagation()}
          onChange={(event) => {
            take(event.currentTarget.files);
            // The same file can be chosen again after a change.
            event.currentTarget.value = "";
          }}
        />
        <Icon name={props.file ? "files" : "upload"} class="muted" />
        {props.file ? (
          <span class="grow stack g2">
            <span class="strong5 breakable">{props.file.name}</span>
            <span class="muted t12 num">{size(props.file.size)}</span>
          </span>
        ) : (
          <span class="grow muted">Choose a file, or drop it here</span>
        )}
        {props.file && <span class="muted t12">Change</span>}
      </label>
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
    </div>
  );
}
