import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Check, Field } from "../../parts/field.tsx";
import { Chip } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { schemaFault } from "./schema.ts";
import type { ChatSettings, Tool } from "./settings.ts";

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

const EXAMPLE = `{
  "type": "object",
  "properties": {
    "order": { "type": "string", "description": "Number of the order" }
  },
  "required": ["order"]
}`;

/** Edits the schema of structured answers, and checks it while it is typed. */
export function SchemaDialog(props: {
  settings: ChatSettings;
  onChange: (changes: Partial<ChatSettings>) => void;
  onClose: () => void;
}) {
  const { settings } = props;
  const [name, setName] = useState(settings.schemaName);
  const [text, setText] = useState(settings.schema);
  const [isStrict, setStrict] = useState(settings.isStrict);
  const fault = schemaFault(text);
  const nameFault = NAME.test(name) ? null : "Use 1 to 64 letters, digits, hyphens and underscores.";
  return (
    <Dialog
      title="Schema of the answer"
      size="large"
      onClose={props.onClose}
      onSubmit={() => {
        if (fault || nameFault) return;
        props.onChange({ schema: text, schemaName: name, isStrict, format: "json_schema" });
        props.onClose();
      }}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit" disabled={!!fault || !!nameFault}>
            Use schema
          </Button>
        </>
      }
    >
      <Field label="Name" value={name} error={nameFault} maxLength={64} onInput={setName} />
      <TextArea
        label="JSON Schema"
        isCode
        rows={14}
        value={text}
        error={fault}
        note={fault ? undefined : <Chip tone="ok">Valid</Chip>}
        onInput={setText}
        onKeyDown={indent}
      />
      <Check label="Strict" note="The model may only produce values that match." value={isStrict} onChange={setStrict} />
      <p class="hint">Each answer is checked against the schema while it arrives.</p>
    </Dialog>
  );
}

interface Draft {
  name: string;
  description: string;
  parameters: string;
}

function toDraft(tool: Tool): Draft {
  return { name: tool.name, description: tool.description, parameters: JSON.stringify(tool.parameters, null, 2) };
}

function faultsOf(draft: Draft, drafts: Draft[]): { name: string | null; parameters: string | null } {
  const isTwice = drafts.filter((other) => other.name === draft.name).length > 1;
  const name = !NAME.test(draft.name)
    ? "Use 1 to 64 letters, digits, hyphens and underscores."
    : isTwice
      ? "Another tool has this name."
      : null;
  return { name, parameters: schemaFault(draft.parameters) };
}

/** Edits the functions that the models may call. */
export function ToolsDialog(props: {
  settings: ChatSettings;
  onChange: (changes: Partial<ChatSettings>) => void;
  onClose: () => void;
}) {
  const { tools } = props.settings;
  const [drafts, setDrafts] = useState<Draft[]>(
    tools.length > 0 ? tools.map(toDraft) : [{ name: "lookup_order", description: "Returns the state of an order.", parameters: EXAMPLE }],
  );
  const [isShown, setShown] = useState(false);
  const faults = drafts.map((draft) => faultsOf(draft, drafts));
  const isValid = faults.every((fault) => !fault.name && !fault.parameters);
  const edit = (index: number, changes: Partial<Draft>) =>
    setDrafts(drafts.map((draft, at) => (at === index ? { ...draft, ...changes } : draft)));
  return (
    <Dialog
      title="Tools"
      size="large"
      onClose={props.onClose}
      onSubmit={() => {
        setShown(true);
        if (!isValid) return;
        const next = drafts.map((draft): Tool => ({ ...draft, parameters: JSON.parse(draft.parameters) as unknown }));
        props.onChange({ tools: next });
        props.onClose();
      }}
      footer={
        <>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Use tools
          </Button>
        </>
      }
    >
      <p class="muted t14">A model that calls a tool stops and shows the arguments. Paste the result, and the answer continues.</p>
      {drafts.map((draft, index) => (
        <fieldset key={index} class="boxed stack g12">
          <legend class="sr">Tool {index + 1}</legend>
          <div class="row end-top">
            <div class="grow">
              <Field
                label="Name"
                value={draft.name}
                maxLength={64}
                error={isShown ? (faults[index]?.name ?? null) : null}
                onInput={(name) => edit(index, { name })}
              />
            </div>
            <Button
              kind="bare"
              icon="remove"
              label={`Remove ${draft.name || "the tool"}`}
              onClick={() => setDrafts(drafts.filter((_, at) => at !== index))}
            />
          </div>
          <Field label="Description" value={draft.description} onInput={(description) => edit(index, { description })} />
          <TextArea
            label="Parameters, as JSON Schema"
            isCode
            rows={6}
            value={draft.parameters}
            error={faults[index]?.parameters ?? null}
            onInput={(parameters) => edit(index, { parameters })}
            onKeyDown={indent}
          />
        </fieldset>
      ))}
      <div class="row">
        <Button
          size="small"
          icon="plus"
          onClick={() => setDrafts([...drafts, { name: "", description: "", parameters: EXAMPLE }])}
        >
          Add tool
        </Button>
      </div>
    </Dialog>
  );
}

/** Enter repeats the indentation of the line. */
function indent(event: KeyboardEvent): void {
  const area = event.currentTarget;
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey || !(area instanceof HTMLTextAreaElement)) return;
  const line = area.value.slice(0, area.selectionStart).split("\n").at(-1) ?? "";
  const space = /^\s*/.exec(line)?.[0] ?? "";
  event.preventDefault();
  area.setRangeText(`\n${space}`, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
}
