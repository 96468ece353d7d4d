import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Field, Options, Select } from "../../parts/field.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Slider } from "../../parts/slider.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { count, plural } from "../../shell/format.ts";
import { findModel } from "./catalog.ts";
import { chat } from "./conversation.ts";
import { DEFAULT_PARAMETERS, maxOutput, summary, type ChatSettings, type ColumnSettings, type Format, type Parameters } from "./settings.ts";
import { SchemaDialog, ToolsDialog } from "./tools.tsx";

const EFFORTS = [
  { value: "", label: "Default" },
  { value: "none", label: "None" },
  { value: "minimal", label: "Minimal" },
  { value: "low", label: "Low" },
  { value: "medium", label: "Medium" },
  { value: "high", label: "High" },
  { value: "xhigh", label: "Extra high" },
  { value: "max", label: "Maximum" },
] as const;

const VERBOSITIES = [
  { value: "", label: "Default" },
  { value: "low", label: "Low" },
  { value: "medium", label: "Medium" },
  { value: "high", label: "High" },
] as const;

const CHOICES = [
  { value: "auto", label: "Automatic" },
  { value: "required", label: "Required" },
  { value: "none", label: "None" },
] as const;

/** The parameters of all columns, at the side of the chat. On phones they are folded. */
export function ParametersPane() {
  const conversation = chat.value;
  const settings = conversation.settings.value;
  const { parameters } = settings;
  const [isOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState<"schema" | "tools" | null>(null);
  const models = settings.models.map(findModel);
  const limit = maxOutput(models);
  const formats = formatsOf(models.map((model) => model?.structured_output ?? "json_schema"));
  const change = (changes: Partial<ChatSettings>) => conversation.change(changes);
  const set = (changes: Partial<Parameters>) => change({ parameters: { ...parameters, ...changes } });
  return (
    <aside class={isOpen ? "params open" : "params"} aria-label="Parameters">
      <header class="row between">
        <h2>Parameters</h2>
        <Button
          size="small"
          kind="bare"
          class="wideonly"
          onClick={() =>
            change({ parameters: DEFAULT_PARAMETERS, columns: [], system: "", format: "text", tools: [], maxCost: "" })
          }
        >
          Reset
        </Button>
        <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <span class="muted t12 trunc">{summary(settings)}</span>
          <Icon name="down" />
          <span class="sr">Show the parameters</span>
        </button>
      </header>
      <div class="plist">
        <TextArea label="System prompt" rows={3} value={settings.system} onInput={(system) => change({ system })} />
        <Slider
          label="Temperature"
          value={parameters.temperature}
          minimum={0}
          maximum={2}
          step={0.05}
          start={1}
          onChange={(temperature) => set({ temperature })}
        />
        <Slider label="Top P" value={parameters.top_p} minimum={0} maximum={1} step={0.01} start={1} onChange={(top_p) => set({ top_p })} />
        <NumberField
          label="Maximum output tokens"
          value={parameters.max_completion_tokens}
          maximum={limit ?? 1_000_000}
          {...(limit ? { unit: `of ${count(limit)}` } : {})}
          onChange={(max_completion_tokens) => set({ max_completion_tokens })}
        />
        <Select
          label="Reasoning effort"
          value={parameters.reasoning_effort}
          options={EFFORTS}
          onChange={(reasoning_effort) => set({ reasoning_effort })}
        />
        {formats.length > 1 && (
          <Select
            label="Response format"
            value={settings.format}
            options={formats}
            onChange={(format: Format) => {
              change({ format });
              if (format === "json_schema") setDialog("schema");
            }}
          />
        )}
        {settings.format === "json_schema" && (
          <button type="button" class="att full" onClick={() => setDialog("schema")}>
            <code>{settings.schemaName || "answer"}</code>
            <span class="end muted t12">Edit the schema</span>
          </button>
        )}
        <div class="field">
          <span class="lab">
            Tools
            <button type="button" class="linkish" onClick={() => setDialog("tools")}>
              {settings.tools.length > 0 ? "Edit" : "Add"}
              <span class="sr"> tools</span>
            </button>
          </span>
          {settings.tools.map((tool) => (
            <button key={tool.name} type="button" class="att full" onClick={() => setDialog("tools")}>
              <code class="trunc">{tool.name}</code>
              <span class="end muted t12">{plural(fieldsOf(tool.parameters), "field")}</span>
            </button>
          ))}
          {settings.tools.length === 0 && <span class="hint">Functions that the models may call. You paste their results.</span>}
        </div>
        {settings.tools.length > 0 && (
          <>
            <Options label="Tool choice" value={parameters.tool_choice} options={CHOICES} onChange={(tool_choice) => set({ tool_choice })} />
            <label class="row">
              <input
                type="checkbox"
                class="cb"
                checked={parameters.parallel_tool_calls}
                onChange={(event) => set({ parallel_tool_calls: event.currentTarget.checked })}
              />
              Several calls in one turn
            </label>
          </>
        )}
        <Field
          label="Cost limit for an answer"
          value={settings.maxCost}
          unit="credits"
          error={settings.maxCost && !/^\d+(\.\d{1,9})?$/.test(settings.maxCost.trim()) ? "Enter an amount such as 0.05." : null}
          hint="Answers are shortened to stay within it. An answer that must cost more is refused."
          onInput={(maxCost) => change({ maxCost })}
        />
        <details class="more">
          <summary>
            <Icon name="right" small />
            More parameters
          </summary>
          <div class="plist">
            <Select
              label="Verbosity"
              value={parameters.verbosity}
              options={VERBOSITIES}
              onChange={(verbosity) => set({ verbosity })}
            />
            <Slider
              label="Frequency penalty"
              value={parameters.frequency_penalty}
              minimum={-2}
              maximum={2}
              step={0.1}
              start={0}
              onChange={(frequency_penalty) => set({ frequency_penalty })}
            />
            <Slider
              label="Presence penalty"
              value={parameters.presence_penalty}
              minimum={-2}
              maximum={2}
              step={0.1}
              start={0}
              onChange={(presence_penalty) => set({ presence_penalty })}
            />
            <NumberField label="Seed" value={parameters.seed} minimum={0} maximum={2_147_483_647} onChange={(seed) => set({ seed })} />
            <TextArea
              label="Stop sequences"
              rows={2}
              isCode
              value={parameters.stop}
              hint="One a line, at most four."
              onInput={(stop) => set({ stop })}
            />
          </div>
        </details>
      </div>
      {dialog === "schema" && <SchemaDialog settings={settings} onChange={change} onClose={() => setDialog(null)} />}
      {dialog === "tools" && <ToolsDialog settings={settings} onChange={change} onClose={() => setDialog(null)} />}
    </aside>
  );
}

/** Settings of one column, which take precedence over the parameters of all columns. */
export function ColumnDialog(props: { column: number; onClose: () => void }) {
  const { column } = props;
  const conversation = chat.value;
  const settings = conversation.settings.value;
  const own = settings.columns[column] ?? {};
  const model = settings.models[column] ?? "";
  const limit = findModel(model)?.max_output_tokens ?? null;
  const set = (changes: ColumnSettings) =>
    conversation.change({ columns: settings.models.map((_, at) => ({ ...settings.columns[at], ...(at === column ? changes : {}) })) });
  return (
    <Dialog
      title={`Settings of column ${column + 1}`}
      onClose={props.onClose}
      footer={
        <>
          <Button
            kind="bare"
            onClick={() => {
              conversation.change({ columns: settings.models.map((_, at) => (at === column ? {} : (settings.columns[at] ?? {}))) });
              props.onClose();
            }}
          >
            Use the parameters of all columns
          </Button>
          <span class="grow" />
          <Button onClick={props.onClose}>Close</Button>
        </>
      }
    >
      <p class="muted t14">
        Only for {model}. Empty fields use the parameters of all columns.
      </p>
      <TextArea label="System prompt of the column" rows={3} value={own.system ?? ""} onInput={(system) => set({ system })} />
      <Slider
        label="Temperature of the column"
        value={own.temperature ?? null}
        minimum={0}
        maximum={2}
        step={0.05}
        start={settings.parameters.temperature ?? 1}
        onChange={(temperature) => set({ temperature })}
      />
      <NumberField
        label="Maximum output tokens of the column"
        value={own.max_completion_tokens ?? null}
        maximum={limit ?? 1_000_000}
        {...(limit ? { unit: `of ${count(limit)}` } : {})}
        onChange={(max_completion_tokens) => set({ max_completion_tokens })}
      />
      <Select
        label="Reasoning effort of the column"
        value={own.reasoning_effort ?? ""}
        options={EFFORTS}
        onChange={(reasoning_effort) => set({ reasoning_effort })}
      />
    </Dialog>
  );
}

function fieldsOf(schema: unknown): number {
  const properties = (schema as { properties?: unknown } | null)?.properties;
  return properties !== null && typeof properties === "object" ? Object.keys(properties).length : 0;
}

function formatsOf(outputs: ("json_schema" | "json_mode" | "none")[]): { value: Format; label: string }[] {
  return [
    { value: "text", label: "Text" },
    ...(outputs.every((one) => one !== "none") ? [{ value: "json_object" as const, label: "JSON" }] : []),
    ...(outputs.every((one) => one === "json_schema") ? [{ value: "json_schema" as const, label: "JSON with a schema" }] : []),
  ];
}

/** A whole number, or none. */
export function NumberField(props: {
  label: string;
  value: number | null;
  minimum?: number;
  maximum: number;
  unit?: string;
  hint?: string;
  onChange: (value: number | null) => void;
}) {
  const [text, setText] = useState(props.value === null ? "" : String(props.value));
  const minimum = props.minimum ?? 1;
  const shown = text.trim() === "" ? null : Number(text.replaceAll(",", ""));
  const isValid = shown === null || (Number.isInteger(shown) && shown >= minimum && shown <= props.maximum);
  // The value was changed elsewhere, for example by a reset.
  const current = isValid && shown !== props.value ? (props.value === null ? "" : String(props.value)) : text;
  return (
    <Field
      label={props.label}
      value={current}
      isNumber
      {...(props.unit ? { unit: props.unit } : {})}
      {...(props.hint ? { hint: props.hint } : {})}
      error={isValid ? null : `Enter a whole number from ${count(minimum)} to ${count(props.maximum)}.`}
      onInput={(value) => {
        setText(value);
        const number = value.trim() === "" ? null : Number(value.replaceAll(",", ""));
        if (number === null || (Number.isInteger(number) && number >= minimum && number <= props.maximum)) props.onChange(number);
      }}
    />
  );
}
