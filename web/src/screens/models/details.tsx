import { Button } from "../../parts/button.tsx";
import { CopyButton } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { count } from "../../shell/format.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import type { Model } from "../../shell/types.ts";
import { capitalised, priceLines, providerLabel, releaseDate, STRUCTURED_OUTPUT, typeLabel } from "./catalog.ts";
import { playgroundOf } from "./compare.tsx";

/** Prices, limits and abilities of a model. */
export function DetailsDialog(props: {
  model: Model;
  isCompared: boolean;
  mayCompare: boolean;
  onCompare: () => void;
  onClose: () => void;
}) {
  const { model } = props;
  return (
    <Dialog
      title={model.display_name}
      isSide
      onClose={props.onClose}
      footer={
        <>
          <Button
            disabled={!props.isCompared && !props.mayCompare}
            onClick={() => {
              props.onCompare();
              props.onClose();
            }}
          >
            {props.isCompared ? "Remove from the comparison" : "Compare"}
          </Button>
          <span class="end" />
          <Button onClick={props.onClose}>Close</Button>
          {mayMakeCalls() && (
            <a class="btn pri" href={playgroundOf([model])}>
              Try
            </a>
          )}
        </>
      }
    >
      <div class="row wrap">
        <Chip>{typeLabel(model.type)}</Chip>
        {model.batch_supported && <Chip tone="acc">Batch, 35 % off</Chip>}
        {model.simulated && <Chip tone="warn">Simulated</Chip>}
      </div>
      <div class="row g4">
        <code class="breakable">{model.id}</code>
        <CopyButton text={model.id} label="Copy the model id" />
      </div>
      <Prices model={model} />
      <dl class="kv">
        <Fact name="Provider">{providerLabel(model.owned_by)}</Fact>
        <Fact name="Released">{model.release_date === "-" ? "Not verified" : releaseDate(model)}</Fact>
        <Fact name="Context">{model.context_window && `${count(model.context_window)} tokens`}</Fact>
        <Fact name="Max output">{model.max_output_tokens && `${count(model.max_output_tokens)} tokens`}</Fact>
        <Fact name="Input">{list(model.modalities.input)}</Fact>
        <Fact name="Output">{list(model.modalities.output)}</Fact>
        <Fact name="Structured output">
          {model.structured_output !== "none" && STRUCTURED_OUTPUT[model.structured_output]}
        </Fact>
        <Fact name="Modes">{model.modes.map((mode) => MODES[mode] ?? mode).join(", ")}</Fact>
        {Object.entries(model.limits)
          .filter(([name]) => name !== "factors")
          .map(([name, value]) => (
            <Fact key={name} name={LIMITS[name] ?? capitalised(name)}>
              {limitText(name, value)}
            </Fact>
          ))}
      </dl>
      <div class="stack g4">
        <h3>Endpoints</h3>
        <ul class="stack g2">
          {model.endpoints.map((endpoint) => (
            <li key={endpoint}>
              <code class="muted breakable">{endpoint}</code>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}

function Fact(props: { name: string; children: string | number | false | null | undefined }) {
  if (!props.children) return null;
  return (
    <>
      <dt>{props.name}</dt>
      <dd class="num">{props.children}</dd>
    </>
  );
}

const MODES: Record<string, string> = {
  t2v: "text to video",
  i2v: "image to video",
  r2v: "references to video",
  v2v: "video to video",
};

const LIMITS: Record<string, string> = {
  dimensions: "Vector length",
  aspect_ratios: "Aspect ratios",
  max_images: "Images a request",
  max_input_images: "Input images",
  max_references: "References",
  max_reference_resolution: "Reference resolution",
  max_prompt_characters: "Prompt",
  masks: "Masks",
  variations: "Variations",
  image_sets: "Image sets",
  negative_prompts: "Negative prompts",
};

function list(values: string[]): string {
  return capitalised(values.join(", "));
}

function limitText(name: string, value: unknown): string {
  if (value === true) return "Yes";
  if (value === false) return "No";
  if (Array.isArray(value)) return value.join(", ") + (name === "durations" ? " seconds" : "");
  if (typeof value === "number") {
    if (name === "dimensions") return count(value);
    return `up to ${count(value)}${name === "max_prompt_characters" ? " characters" : ""}`;
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

function Prices(props: { model: Model }) {
  const { model } = props;
  const factors = model.limits["factors"];
  const lines = priceLines(model);
  const units = new Set(lines.map((line) => line.unit));
  return (
    <div class="stack g4">
      <div class="row between">
        <h3>Prices</h3>
        <span class="muted t12">credits {units.size === 1 && lines[0]?.unit}</span>
      </div>
      <div class="receipt">
        {lines.map((line) => (
          <div key={line.name}>
            <span>{line.label}</span>
            <i />
            {units.size > 1 && <span class="q t12">{line.unit}</span>}
            <span class="num strong5">{line.price}</span>
          </div>
        ))}
        {factors !== null && typeof factors === "object"
          ? Object.entries(factors).map(([name, factor]) => (
              <div key={name}>
                <span class="q">
                  {capitalised(name)} <span class="sr">counts as</span>
                </span>
                <i />
                <span class="num">× {String(factor)}</span>
              </div>
            ))
          : null}
      </div>
      {model.batch_supported && <p class="muted t12">Requests of a batch cost 65 % of these prices.</p>}
    </div>
  );
}
