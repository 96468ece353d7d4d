import { effect, signal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Segments } from "../../parts/data.tsx";
import { FileField } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Banner } from "../../parts/states.tsx";
import { ApiError } from "../../shell/api.ts";
import { add, amount, fromUnits, toUnits } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { account } from "../../shell/session.ts";
import type { Model } from "../../shell/types.ts";
import { findModel, prefixMark } from "./catalog.ts";
import { CodeDialog } from "./code-dialog.tsx";
import type { CodeRequest } from "./code.ts";
import type { QuoteItem, QuoteState } from "./quote.ts";

const resets: (() => void)[] = [];

let owner: string | undefined;

// What was typed stays while another mode or screen is shown, but not for another account.
effect(() => {
  const id = account.value?.member_id;
  if (!id || id === owner) return;
  if (owner) for (const reset of resets) reset();
  owner = id;
});

/** Creates the state of a mode, which outlives its screen. */
export function modeState<T>(initial: T): Signal<T> {
  const state = signal(initial);
  resets.push(() => {
    state.value = initial;
  });
  return state;
}

/** The page of a mode with a form on the left and results on the right. */
export function FormPage(props: {
  title: string;
  tabs: ComponentChildren;
  /** The latest request, or the one that the form would send. */
  code: CodeRequest | null;
  isSent: boolean;
  action?: ComponentChildren;
  form: ComponentChildren;
  children: ComponentChildren;
}) {
  const [isCodeOpen, setCodeOpen] = useState(false);
  return (
    <Page
      title={props.title}
      isFlush
      action={
        <span class="row pactions">
          {props.action}
          <Button size="small" icon="code" disabled={!props.code} onClick={() => setCodeOpen(true)}>
            <span class="wideonly">Code</span>
            <span class="sr narrow">Code</span>
          </Button>
        </span>
      }
    >
      {props.tabs}
      <div class="pg form">
        {props.form}
        <div class="results">{props.children}</div>
      </div>
      {isCodeOpen && props.code && (
        <CodeDialog requests={[props.code]} isSent={props.isSent} onClose={() => setCodeOpen(false)} />
      )}
    </Page>
  );
}

const PHONE = "(max-width: 720px)";

/** The fields of a mode, with its price and its button at the end. */
export function CallForm(props: {
  children: ComponentChildren;
  footer?: ComponentChildren;
  error: unknown;
  onSubmit: () => void;
  submit: ComponentChildren;
}) {
  const { error } = props;
  const submit = () => {
    props.onSubmit();
    // On phones the results are below the form.
    if (matchMedia(PHONE).matches) document.querySelector(".results")?.scrollIntoView({ block: "start" });
  };
  return (
    <form
      class="dform"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        submit();
      }}
    >
      {props.children}
      <div class="dgo">
        {error !== null && <Failure error={error} />}
        {props.footer}
        <div class="row">{props.submit}</div>
      </div>
    </form>
  );
}

export function Failure(props: { error: unknown }) {
  const { error } = props;
  const message = error instanceof Error ? error.message : String(error);
  return (
    <Banner kind="failure">
      <span class="note">{message}</span>
      {error instanceof ApiError && (
        <span class="muted t12 row wrap">
          <code>{error.code}</code>
          {error.requestId && <code class="breakable">{error.requestId}</code>}
        </span>
      )}
    </Banner>
  );
}

export function ModelField(props: { models: Model[]; value: string; onChange: (model: string) => void }) {
  const id = useId();
  const found = findModel(props.value);
  return (
    <div class="field">
      <label for={id}>Model</label>
      <div class="in">
        <span class="mk" aria-hidden="true">
          {prefixMark(props.value)}
        </span>
        <select id={id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
          {!found && <option value={props.value}>{props.value || "None"}</option>}
          {props.models.map((model) => (
            <option key={model.id} value={model.id}>
              {model.id}
            </option>
          ))}
        </select>
        <Icon name="updown" small />
      </div>
    </div>
  );
}

/** Chooses one of a few values, or of many. */
export function ValueField(props: {
  label: string;
  value: string;
  values: string[];
  /** Whether no value is a choice: then the model decides. */
  hasDefault?: boolean;
  /** Whether the field has half of the width of the form. */
  isNarrow?: boolean;
  onChange: (value: string) => void;
}) {
  const id = useId();
  const options = [...(props.hasDefault ? [{ value: "", label: "Default" }] : []), ...props.values.map((value) => ({ value, label: value }))];
  const isShort = !props.isNarrow && options.length <= 5 && options.every((option) => option.label.length <= 7);
  if (isShort) {
    return (
      <div class="field">
        <span class="lab">{props.label}</span>
        <Segments label={props.label} value={props.value} options={options} onChange={props.onChange} />
      </div>
    );
  }
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      <div class="in">
        <select id={id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
        <Icon name="down" small />
      </div>
    </div>
  );
}

export interface PriceLine {
  label: string;
  /** Quantity and price, such as `4 × 0.04`. */
  detail: string;
  cost: string;
}

/** The price before a call, line by line. Without a total, the lines are added up. */
export function Receipt(props: { lines: PriceLine[]; sum: string; total?: string }) {
  const total = props.total ?? props.lines.reduce((sum, line) => add(sum, line.cost), "0");
  return (
    <div class="receipt">
      {props.lines.map((line) => (
        <div key={line.label}>
          <span>{line.label}</span>
          <span class="q">{line.detail}</span>
          <i />
          <span title={line.cost}>{trimmed(line.cost)}</span>
        </div>
      ))}
      <div class="sum">
        <span>{props.sum}</span>
        <i />
        <span title={total}>{trimmed(total)}</span>
      </div>
    </div>
  );
}

const CLASSES: Record<string, string> = {
  input: "Input tokens",
  output: "Output tokens",
  image: "Standard images",
  video: "Standard seconds",
  character: "Characters",
  search: "Search queries",
};

const PER_MILLION = ["input", "output", "character"];

/** The maximum cost before a call, and whether the balance covers it. */
export function QuoteReceipt(props: {
  quote: QuoteState;
  /** Labels of the lines by class, where the form has more to tell than the quote. */
  labels?: Record<string, string>;
  hint: string;
}) {
  const { quote } = props;
  if (quote.error !== null) return <p class="t12 warn">{quote.error}</p>;
  if (quote.most === null) return <p class="muted t12">{props.hint}</p>;
  const line = (item: QuoteItem): PriceLine => ({
    label: props.labels?.[item.class] ?? CLASSES[item.class] ?? item.class,
    detail: `${item.quantity} × ${item.price}${PER_MILLION.includes(item.class) ? " a million" : ""}`,
    cost: item.cost,
  });
  return (
    <>
      <Receipt lines={quote.items.map(line)} sum="At most" total={quote.most} />
      {!quote.isSufficient && (
        <p class="t12 warn" role="status">
          More than the balance.
        </p>
      )}
    </>
  );
}

/** Returns an amount with at least three decimals, and no zeros after them. */
export function trimmed(value: string): string {
  const [whole, fraction = ""] = amount(value, 9).split(".");
  return `${whole}.${fraction.replace(/0+$/, "").padEnd(3, "0")}`;
}

const ONE = 10n ** 12n;

/** Multiplies decimal strings. */
export function times(...factors: string[]): string {
  return fromUnits(factors.reduce((product, factor) => (product * toUnits(factor)) / ONE, ONE));
}

const MIB = 1024 * 1024;
const MAX_INLINE_BYTES = 20 * MIB;

export interface InlineFile {
  name: string;
  type: string;
  size: number;
  url: string;
}

/** Reads a file as a data URL. */
function readInline(file: File): Promise<InlineFile> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done({ name: file.name, type: file.type, size: file.size, url: String(reader.result) });
    reader.onerror = () => fail(reader.error ?? new Error("The file cannot be read."));
    reader.readAsDataURL(file);
  });
}

/** Files that a request contains. */
export function InlineFiles(props: {
  label: string;
  files: InlineFile[];
  maximum: number;
  accept: string;
  hint: string;
  onChange: (files: InlineFile[]) => void;
}) {
  const [error, setError] = useState<string | null>(null);
  const { files } = props;
  return (
    <div class="stack">
      {files.length < props.maximum && (
        <FileField
          label={props.label}
          file={null}
          accept={props.accept}
          hint={props.hint}
          error={error}
          onChange={(file) => {
            setError(file.size > MAX_INLINE_BYTES ? "The file is larger than 20 MiB." : null);
            if (file.size > MAX_INLINE_BYTES) return;
            readInline(file).then(
              (read) => props.onChange([...files, read]),
              (failure: unknown) => setError(failure instanceof Error ? failure.message : String(failure)),
            );
          }}
        />
      )}
      {files.length > 0 && (
        <ul class="row wrap atts">
          {files.map((file, index) => (
            <li key={file.name + index} class="att">
              {file.type.startsWith("image/") ? <img class="thumb" src={file.url} alt="" /> : <Icon name="files" />}
              <span class="trunc">{file.name}</span>
              <button
                type="button"
                class="inside"
                aria-label={`Remove ${file.name}`}
                onClick={() => props.onChange(files.filter((_, at) => at !== index))}
              >
                <Icon name="close" small />
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** Returns a request without members that have no value. */
export function compactBody(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(body).filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0)),
  );
}
