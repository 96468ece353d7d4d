import { useEffect, useId, useRef, useState } from "preact/hooks";

import { amount, count, fromUnits } from "../shell/format.ts";
import type { Slot } from "../shell/period.ts";
import { href, navigate } from "../shell/router.ts";
import { Segments } from "./data.tsx";

/** Counts are multiplied by it, so that all values of charts are whole numbers of one unit. */
const ONE = 10n ** 12n;

/** Series that a chart shows in their own colour; one more is the sum of the others. */
export const MAX_SERIES = 7;

export type Measure = "amount" | "count";

export interface Series {
  id: string;
  label: string;
  /** Number of the colour, 1 to 8; 8 is the colour of the others. */
  color: number;
  /** Value of each slot: an amount in units of 10⁻¹², or a count by `toValue`. */
  values: bigint[];
}

/** Returns a count as a value of a chart. */
export function toValue(number: number): bigint {
  return BigInt(Math.round(number)) * ONE;
}

const SIZES = [
  [1_000_000_000n, "B"],
  [1_000_000n, "M"],
  [10_000n, "K"],
] as const;

/** Returns round and distinct steps of an axis from 0 up to a maximum, with their labels. */
export function axisSteps(maximum: bigint, measure: Measure): { value: bigint; label: string }[] {
  const smallest = measure === "count" ? ONE : 1n;
  const step = stepFor(maximum > smallest ? maximum : smallest, smallest);
  const lines = maximum > step ? Number((maximum + step - 1n) / step) : 1;
  const values = Array.from({ length: lines + 1 }, (_, index) => BigInt(index) * step);
  const label = measure === "amount" ? amountLabel(step) : countLabel(BigInt(lines) * step);
  return values.map((value) => ({ value, label: label(value) }));
}

const MAX_INTERVALS = 4n;

function stepFor(maximum: bigint, smallest: bigint): bigint {
  const rough = (maximum + MAX_INTERVALS - 1n) / MAX_INTERVALS;
  const power = 10n ** BigInt(rough.toString().length - 1);
  const steps = [power, 2n * power, (5n * power) / 2n, 5n * power, 10n * power];
  return steps.find((size) => size >= rough && size % smallest === 0n) ?? smallest;
}

/** Formats amounts with exactly the decimals that the step needs, so that no two labels are equal. */
function amountLabel(step: bigint): (value: bigint) => string {
  const digits = step.toString().padStart(13, "0").slice(-12);
  const decimals = digits.replace(/0+$/, "").length;
  return (value) => (value === 0n ? "0" : amount(fromUnits(value), decimals));
}

function countLabel(top: bigint): (value: bigint) => string {
  const [size, suffix] = SIZES.find(([one]) => top / ONE >= one) ?? [1n, ""];
  const divisor = suffix === "K" ? 1000 : Number(size);
  return (value) => (value === 0n ? "0" : `${count(Number(value / ONE) / divisor)}${suffix && ` ${suffix}`}`);
}

export type ChartView = "chart" | "table";

/** Switches between a chart and its table. */
export function ChartSwitch(props: { view: ChartView; onChange: (view: ChartView) => void }) {
  return (
    <Segments
      label="View"
      value={props.view}
      options={[
        { value: "chart", label: "Chart" },
        { value: "table", label: "Table" },
      ]}
      onChange={props.onChange}
    />
  );
}

export const CHART_HEIGHT = 224;

const TOP = 8;
const BELOW = 22;
const MIN_LEFT = 34;
const DIGIT_WIDTH = 6.8;
const LABEL_GAP = 8;
const LABEL_WIDTH = 72;
const MAX_BAR = 40;
const TIP_WIDTH = 220;
const TIP_GAP = 12;

/** Returns the path of the page about a slot; null for slots without one. */
export type SlotPath = (index: number) => string | null;

/**
 * Stacked bars. The pointer and the arrow keys select a bar, whose values a tooltip shows. A click
 * and Enter open the page about the bar; the first tap on a touch screen only selects it.
 */
export function StackedBars(props: {
  label: string;
  slots: Slot[];
  series: Series[];
  measure: Measure;
  format: (value: bigint) => string;
  pathOf: SlotPath;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [active, setActive] = useState<number | null>(null);
  const pressed = useRef<number | null>(null);
  const hint = useId();
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const { slots, series, format } = props;
  const last = slots.length - 1;
  const totals = slots.map((_, index) => series.reduce((sum, one) => sum + (one.values[index] ?? 0n), 0n));
  const steps = axisSteps(
    totals.reduce((most, total) => (total > most ? total : most), 0n),
    props.measure,
  );
  const top = steps.at(-1)?.value ?? 1n;
  const left = Math.max(MIN_LEFT, Math.max(...steps.map((step) => step.label.length)) * DIGIT_WIDTH + LABEL_GAP + 4);
  const base = CHART_HEIGHT - BELOW;
  const slotWidth = (width - left) / slots.length;
  const y = (value: bigint) => base - (Number((value * 100_000n) / top) / 100_000) * (base - TOP);
  const at = (x: number) => Math.min(last, Math.max(0, Math.floor((x - left) / slotWidth)));
  const shown = active === null || active > last ? null : active;

  const path = shown === null ? null : props.pathOf(shown);
  const barAt = (event: MouseEvent & { currentTarget: HTMLElement }) => at(event.clientX - event.currentTarget.getBoundingClientRect().left);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && path) navigate(path);
    const current = shown ?? last + 1;
    const next: Record<string, number | null> = {
      ArrowLeft: Math.max(0, current - 1),
      ArrowDown: Math.max(0, current - 1),
      ArrowRight: Math.min(last, shown === null ? 0 : current + 1),
      ArrowUp: Math.min(last, shown === null ? 0 : current + 1),
      Home: 0,
      End: last,
      Escape: null,
    };
    if (!(event.key in next) || (event.key === "Escape" && shown === null)) return;
    event.preventDefault();
    setActive(next[event.key] ?? null);
  };
  return (
    <div
      ref={frame}
      class={path ? "plot opens" : "plot"}
      role="slider"
      tabIndex={0}
      aria-label={props.label}
      aria-valuemin={1}
      aria-valuemax={slots.length}
      aria-valuenow={(shown ?? last) + 1}
      aria-valuetext={describe(props, totals, shown ?? last)}
      aria-describedby={hint}
      onKeyDown={onKeyDown}
      onBlur={() => setActive(null)}
      onPointerMove={(event) => setActive(barAt(event))}
      onPointerDown={(event) => {
        pressed.current = event.pointerType === "mouse" || shown === barAt(event) ? barAt(event) : null;
        setActive(barAt(event));
      }}
      onClick={(event) => {
        const index = barAt(event);
        const opened = pressed.current === index ? props.pathOf(index) : null;
        if (opened) navigate(opened);
      }}
      onPointerLeave={(event) => event.pointerType === "mouse" && setActive(null)}
    >
      <span id={hint} class="sr">
        Enter shows the calls of the selected bar.
      </span>
      {width > 0 && (
        <svg class="chart" viewBox={`0 0 ${width} ${CHART_HEIGHT}`} aria-hidden="true">
          {steps.map((step) => (
            <g key={step.label}>
              <line class={step.value === 0n ? "base" : "grid"} x1={left} x2={width} y1={y(step.value)} y2={y(step.value)} />
              <text x={left - LABEL_GAP} y={y(step.value) + 4} text-anchor="end">
                {step.label}
              </text>
            </g>
          ))}
          {shown !== null && <rect class="cursor" x={left + shown * slotWidth} y={TOP} width={slotWidth} height={base - TOP} />}
          <Bars series={series} left={left} slotWidth={slotWidth} y={y} />
          <AxisLabels slots={slots} left={left} slotWidth={slotWidth} />
        </svg>
      )}
      {width > 0 && shown !== null && (
        <Tip
          title={slots[shown]?.title ?? ""}
          total={format(totals[shown] ?? 0n)}
          rows={series
            .filter((one) => (one.values[shown] ?? 0n) > 0n)
            .map((one) => ({ ...one, text: format(one.values[shown] ?? 0n) }))}
          x={left + (shown + 0.5) * slotWidth}
          gap={slotWidth / 2 + TIP_GAP}
          width={width}
          note={path ? "Select to show its calls" : null}
        />
      )}
    </div>
  );
}

function describe(props: { slots: Slot[]; series: Series[]; format: (value: bigint) => string }, totals: bigint[], index: number): string {
  const parts = props.series
    .filter((one) => props.series.length > 1 && (one.values[index] ?? 0n) > 0n)
    .map((one) => `${one.label} ${props.format(one.values[index] ?? 0n)}`);
  return [`${props.slots[index]?.title}: ${props.format(totals[index] ?? 0n)}`, ...parts].join("; ");
}

function Bars(props: { series: Series[]; left: number; slotWidth: number; y: (value: bigint) => number }) {
  const { slotWidth, y } = props;
  const bar = Math.max(1, Math.min(MAX_BAR, slotWidth * 0.8));
  const bases: bigint[] = [];
  const round = (number: number) => number.toFixed(1);
  return (
    <>
      {props.series.map((one, order) => {
        const path = one.values.map((value, index) => {
          const from = bases[index] ?? 0n;
          bases[index] = from + value;
          if (value <= 0n) return "";
          const bottom = y(from);
          // Parts of a bar have a gap of less than one pixel; small ones stay visible.
          const height = Math.max(1, bottom - y(from + value) - (order > 0 ? 0.8 : 0));
          const x = props.left + index * slotWidth + (slotWidth - bar) / 2;
          return `M${round(x)} ${round(y(from + value))}h${round(bar)}v${round(height)}h${round(-bar)}z`;
        });
        return <path key={one.id} class={`s${one.color}`} d={path.join("")} />;
      })}
    </>
  );
}

function AxisLabels(props: { slots: Slot[]; left: number; slotWidth: number }) {
  const { slots, left, slotWidth } = props;
  const marked = slots.flatMap((slot, index) => (slot.label === null ? [] : [{ index, label: slot.label }]));
  const distance = ((marked[1]?.index ?? 1) - (marked[0]?.index ?? 0)) * slotWidth;
  const every = Math.max(1, Math.ceil(LABEL_WIDTH / distance));
  return (
    <>
      {marked
        .filter((_, order) => (marked.length - 1 - order) % every === 0)
        .map(({ index, label }) => {
          const isLast = index === slots.length - 1 && slotWidth < LABEL_WIDTH;
          const x = left + (isLast ? slots.length : index + 0.5) * slotWidth;
          return (
            <text key={index} x={x} y={CHART_HEIGHT - 5} text-anchor={isLast ? "end" : "middle"}>
              {label}
            </text>
          );
        })}
    </>
  );
}

function Tip(props: {
  title: string;
  total: string;
  rows: (Series & { text: string })[];
  x: number;
  gap: number;
  width: number;
  note: string | null;
}) {
  const { x, gap, width } = props;
  const right = x + gap;
  const fitsRight = right + TIP_WIDTH <= width;
  const place = fitsRight ? right : Math.max(0, x - gap - TIP_WIDTH);
  return (
    <div class="pop tip" aria-hidden="true" style={{ left: `${place}px`, width: `${Math.min(TIP_WIDTH, width)}px` }}>
      <div class="row between">
        <b>{props.title}</b>
        <b class="num">{props.total}</b>
      </div>
      {props.rows.length > 1 &&
        [...props.rows].reverse().map((row) => (
          <div key={row.id} class="row between t12">
            <span class="row g4 muted trunc">
              <i class={`swatch s${row.color}`} />
              <span class="trunc">{row.label}</span>
            </span>
            <span class="num">{row.text}</span>
          </div>
        ))}
      {props.note && <div class="muted t12">{props.note}</div>}
    </div>
  );
}

/** Names the series of a chart. */
export function Legend(props: { series: Series[] }) {
  return (
    <ul class="legend">
      {props.series.map((one) => (
        <li key={one.id}>
          <i class={`swatch s${one.color}`} aria-hidden="true" />
          {one.label}
        </li>
      ))}
    </ul>
  );
}

export interface SeriesColumn {
  label: string;
  values: bigint[];
  format: (value: bigint) => string;
}

/** The values of a chart, the latest first, without the slots that have none. */
export function SeriesTable(props: { label: string; slotName: string; slots: Slot[]; columns: SeriesColumn[]; pathOf: SlotPath }) {
  const rows = props.slots
    .map((slot, index) => ({ slot, path: props.pathOf(index), values: props.columns.map((column) => column.values[index] ?? 0n) }))
    .filter((row) => row.values.some((value) => value > 0n))
    .reverse();
  return (
    <div class="tw scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table class="dense series">
        <caption class="sr">{props.label}</caption>
        <thead>
          <tr>
            <th scope="col">{props.slotName}</th>
            {props.columns.map((column) => (
              <th key={column.label} scope="col" class="n">
                {column.label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.slot.start}>
              <td>{row.path ? <a href={href(row.path)}>{row.slot.title}</a> : row.slot.title}</td>
              {row.values.map((value, index) => (
                <td key={index} class={value > 0n ? "n" : "n muted"} title={value > 0n ? undefined : "None"}>
                  {value > 0n ? props.columns[index]?.format(value) : "–"}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
