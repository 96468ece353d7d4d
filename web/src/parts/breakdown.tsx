import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "./button.tsx";

export interface BreakdownRow {
  id: string;
  label: string;
  /** Replaces the label in the row. */
  name?: ComponentChildren;
  /** Number of the colour in the chart beside. */
  color?: number;
  /** Length of the bar, between 0 and 1. */
  share: number;
  /** Value, and its title. */
  value: string;
  title?: string;
  /** A second value. */
  note?: string;
  /** Address of the filtered list that the row opens. */
  href?: string | null;
}

const SHOWN = 8;

/** Groups with their values, as bars behind the text. */
export function Breakdown(props: { label: string; heads?: readonly [string, string]; rows: BreakdownRow[]; all?: BreakdownRow[] }) {
  const [isOpen, setOpen] = useState(false);
  const all = props.all ?? props.rows;
  const rows = isOpen ? all : props.rows.slice(0, SHOWN);
  const hasMore = all.length > props.rows.length || props.rows.length > SHOWN;
  const classes = props.heads ? "brk paired" : "brk";
  return (
    <div class={classes}>
      {props.heads && (
        <div class="brow hd" aria-hidden="true">
          <span />
          <span class="num">{props.heads[0]}</span>
          <span class="num">{props.heads[1]}</span>
        </div>
      )}
      <ul aria-label={props.label}>
        {rows.map((row) => (
          <li key={row.id}>
            {row.href ? (
              <a class="brow" href={row.href}>
                <RowContent row={row} heads={props.heads} />
              </a>
            ) : (
              <div class="brow">
                <RowContent row={row} heads={props.heads} />
              </div>
            )}
          </li>
        ))}
      </ul>
      {hasMore && (
        <Button kind="bare" size="small" onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fewer" : `All ${all.length}`}
        </Button>
      )}
    </div>
  );
}

function RowContent(props: { row: BreakdownRow; heads: readonly [string, string] | undefined }) {
  const { row, heads } = props;
  return (
    <>
      <i aria-hidden="true" style={{ width: `${row.share * 100}%` }} />
      <span class="row trunc">
        {row.color !== undefined && <em class={`swatch s${row.color}`} aria-hidden="true" />}
        {row.name ?? <span class="trunc">{row.label}</span>}
      </span>
      <span class="num" title={row.title}>
        {heads && <span class="sr">{heads[0]}: </span>}
        {row.value}
      </span>
      {row.note !== undefined && (
        <span class="num muted">
          {heads && <span class="sr">{heads[1]}: </span>}
          {row.note}
        </span>
      )}
    </>
  );
}
