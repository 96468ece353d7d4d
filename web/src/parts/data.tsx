import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { dateTime, initials, relative } from "../shell/format.ts";
import { returnFocus } from "./focus.ts";

export type Tone = "ok" | "warn" | "bad" | "info" | "acc";

/** A short label, with a dot for states. */
export function Chip(props: { tone?: Tone; dot?: boolean; children: ComponentChildren }) {
  return (
    <span class={`chip ${props.tone ?? ""}`}>
      {props.dot && <span class="dot" aria-hidden="true" />}
      {props.children}
    </span>
  );
}

/** A state in a table: dot and word. */
export function Status(props: { tone?: Tone; children: ComponentChildren; isQuiet?: boolean }) {
  return (
    <span class={`status ${props.tone ?? "muted"}`}>
      <span class="dot" aria-hidden="true" />
      <span class={props.isQuiet ? "muted" : undefined}>{props.children}</span>
    </span>
  );
}

/**
 * Shares of a maximum: used, then held. Widths are between 0 and 1. A balance is what is left, and
 * so has no warning when it is full.
 */
export function Meter(props: { used: number; held?: number; label: string; isBig?: boolean; isBalance?: boolean }) {
  const used = Math.min(props.used, 1);
  const held = Math.min(props.held ?? 0, 1 - used);
  const tone = props.isBalance ? "" : used >= 1 ? "b" : used >= 0.9 ? "w" : "";
  return (
    <div class={props.isBig ? "meter big" : "meter"} role="img" aria-label={props.label}>
      {used > 0 && <i class={tone} style={{ width: `${used * 100}%` }} />}
      {held > 0 && <i class="held" style={{ width: `${held * 100}%` }} />}
    </div>
  );
}

/** One ruled strip of figures. */
export function Stats(props: { children: ComponentChildren; isSmall?: boolean }) {
  return <div class={props.isSmall ? "stats s20" : "stats"}>{props.children}</div>;
}

export function Stat(props: { label: ComponentChildren; children: ComponentChildren; note?: ComponentChildren }) {
  return (
    <div class="stat">
      <span>{props.label}</span>
      {props.children}
      {props.note !== undefined && <p>{props.note}</p>}
    </div>
  );
}

export function Card(props: {
  title: string;
  note?: ComponentChildren;
  action?: ComponentChildren;
  footer?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card">
      <header>
        <h2>{props.title}</h2>
        {props.note && <span class="muted t12 num">{props.note}</span>}
        {props.action && <span class="end row">{props.action}</span>}
      </header>
      {props.children}
      {props.footer && <footer>{props.footer}</footer>}
    </section>
  );
}

export interface Column<T> {
  label: string;
  /** Name for screen readers, for columns without a visible one. */
  isHidden?: boolean;
  isNumber?: boolean;
  /** Hides the column on phones. */
  isOptional?: boolean;
  /** Hides the column on windows below 1400 px. */
  isWide?: boolean;
  class?: string;
  cell: (row: T) => ComponentChildren;
}

/** A table with one line for each row. */
export function Table<T>(props: {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  /** Whether a row is selected. */
  isSelected?: (row: T) => boolean;
  size?: "dense" | "tall";
}) {
  const classes = (column: Column<T>) =>
    [column.isNumber && "n", column.isOptional && "opt", column.isWide && "wide", column.class].filter(Boolean).join(" ") ||
    undefined;
  return (
    <TableFrame label={props.caption}>
      <table class={props.size}>
        <caption class="sr">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.label} scope="col" class={classes(column)}>
                {column.isHidden ? <span class="sr">{column.label}</span> : column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row) => (
            <tr key={props.id(row)} class={props.isSelected?.(row) ? "sel" : undefined}>
              {props.columns.map((column) => (
                <td key={column.label} class={classes(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

/** Scrolls a table that is wider than the page, and lets the keyboard do so as well. */
export function TableFrame(props: {
  label: string;
  /** Whether the frame is no landmark, because the page can have many of the same name. */
  isGroup?: boolean;
  children: ComponentChildren;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [isWide, setWide] = useState(false);
  const focused = useRef<Element | null>(null);
  // A row can disappear while it has the focus, and the last one with its table.
  useLayoutEffect(() => {
    if (!focused.current || focused.current.isConnected) return;
    focused.current = null;
    returnFocus(null);
  });
  useLayoutEffect(() => () => {
    if (frame.current?.contains(document.activeElement)) returnFocus(null);
  }, []);
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWide(element.scrollWidth > element.clientWidth));
    observer.observe(element);
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, []);
  const focusable = isWide ? { tabIndex: 0, role: props.isGroup ? ("group" as const) : ("region" as const), "aria-label": props.label } : {};
  return (
    <div
      ref={frame}
      class="tw"
      {...focusable}
      onFocusIn={(event) => {
        focused.current = event.target as Element;
      }}
    >
      {props.children}
    </div>
  );
}

/** A time from now; its title is the exact time. */
export function Time(props: { at: string | null; none?: string }) {
  if (!props.at) return <span class="muted">{props.none ?? "Never"}</span>;
  return (
    <time class="muted" dateTime={props.at} title={dateTime(props.at)}>
      {relative(props.at)}
    </time>
  );
}

export function Avatar(props: { name: string; isLarge?: boolean; isOff?: boolean }) {
  const classes = ["ava", props.isLarge && "lg", props.isOff && "off"].filter(Boolean).join(" ");
  return (
    <span class={classes} aria-hidden="true">
      {initials(props.name)}
    </span>
  );
}

/** Chooses one of a few views. */
export function Segments<T extends string>(props: {
  label: string;
  /** Omits the frame. */
  isFlat?: boolean;
  value: T;
  options: readonly { value: T; label: string }[];
  onChange: (value: T) => void;
}) {
  return (
    <span class={props.isFlat ? "seg flat" : "seg"} role="group" aria-label={props.label}>
      {props.options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === props.value}
          onClick={() => props.onChange(option.value)}
        >
          {option.label}
        </button>
      ))}
    </span>
  );
}

/** Tabs, which change the pane below. Arrow keys move between them. */
export function Tabs<T extends string>(props: {
  label: string;
  value: T;
  tabs: readonly { value: T; label: string }[];
  onChange: (value: T) => void;
}) {
  return (
    <div
      class="tabs"
      role="tablist"
      aria-label={props.label}
      onKeyDown={(event) => {
        const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (step === 0) return;
        const current = props.tabs.findIndex((tab) => tab.value === props.value);
        const next = props.tabs[(current + step + props.tabs.length) % props.tabs.length];
        if (!next) return;
        props.onChange(next.value);
        event.currentTarget.querySelector<HTMLElement>(`[data-tab="${next.value}"]`)?.focus();
      }}
    >
      {props.tabs.map((tab) => (
        <button
          key={tab.value}
          type="button"
          role="tab"
          data-tab={tab.value}
          aria-selected={tab.value === props.value}
          tabIndex={tab.value === props.value ? 0 : -1}
          onClick={() => props.onChange(tab.value)}
        >
          {tab.label}
        </button>
      ))}
    </div>
  );
}
