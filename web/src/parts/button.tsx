import type { ComponentChildren, TargetedMouseEvent } from "preact";

import { Icon, type IconName } from "./icon.tsx";

interface ButtonProps {
  children?: ComponentChildren;
  kind?: "primary" | "bare" | "danger" | "danger-fill";
  size?: "small" | "large";
  icon?: IconName;
  /** Shows that the action runs, and ignores clicks. */
  isBusy?: boolean;
  disabled?: boolean;
  type?: "button" | "submit";
  /** Name of a button without text. */
  label?: string;
  class?: string;
  onClick?: (event: TargetedMouseEvent<HTMLButtonElement>) => void;
  autoFocus?: boolean;
}

const KINDS = { primary: "pri", bare: "bare", danger: "danger", "danger-fill": "danger-fill" };
const SIZES = { small: "sm", large: "lg" };

export function Button(props: ButtonProps) {
  const classes = [
    "btn",
    props.kind && KINDS[props.kind],
    props.size && SIZES[props.size],
    !props.children && "sq",
    props.class,
  ];
  return (
    <button
      type={props.type ?? "button"}
      class={classes.filter(Boolean).join(" ")}
      disabled={props.disabled}
      aria-disabled={props.isBusy ? "true" : undefined}
      aria-busy={props.isBusy ? "true" : undefined}
      aria-label={props.label}
      title={props.children ? undefined : props.label}
      data-autofocus={props.autoFocus ? "" : undefined}
      onClick={(event) => {
        if (props.isBusy) event.preventDefault();
        else props.onClick?.(event);
      }}
    >
      {props.isBusy ? <span class="spin" aria-hidden="true" /> : props.icon && <Icon name={props.icon} />}
      {props.children}
    </button>
  );
}
