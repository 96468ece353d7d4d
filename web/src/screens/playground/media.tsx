import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { EmptyState } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { count, plural } from "../../shell/format.ts";
import { place } from "../../shell/router.ts";
import type { Model } from "../../shell/types.ts";
import { loadUsage } from "../../shell/usage.ts";
import { findModel, modelsFor } from "./catalog.ts";
import { CallForm, compactBody, FormPage, InlineFiles, ModelField, modeState, QuoteReceipt, ValueField, type InlineFile } from "./forms.tsx";
import { EarlierJobs, JobCard, useJobs } from "./job.tsx";
import { NumberField } from "./parameters.tsx";
import { useQuote } from "./quote.ts";

export const IMAGE_ENDPOINT = "/v1/images/generations";
export const VIDEO_ENDPOINT = "/v1/videos/generations";

interface MediaForm {
  model: string;
  prompt: string;
  negative: string;
  images: InlineFile[];
  aspectRatio: string;
  resolution: string;
  quality: string;
  format: string;
  number: number;
  duration: string;
  hasAudio: boolean;
  mode: string;
  seed: number | null;
}

const EMPTY: MediaForm = {
  model: "",
  prompt: "",
  negative: "",
  images: [],
  aspectRatio: "",
  resolution: "",
  quality: "",
  format: "",
  number: 1,
  duration: "",
  hasAudio: true,
  mode: "",
  seed: null,
};

const imageForm = modeState<MediaForm>(EMPTY);
const videoForm = modeState<MediaForm>(EMPTY);

function list(model: Model | undefined, name: string): string[] {
  const value = model?.limits[name];
  return Array.isArray(value) ? value.map(String) : [];
}

function limit(model: Model | undefined, name: string, fallback: number): number {
  const value = model?.limits[name];
  return typeof value === "number" ? value : fallback;
}

/** Returns a value if the model supports it, so that a change of the model drops what it lacks. */
function supported(value: string, values: string[]): string {
  return values.includes(value) ? value : "";
}

function imageBody(form: MediaForm, model: Model | undefined): Record<string, unknown> {
  return compactBody({
    model: form.model,
    prompt: form.prompt.trim(),
    negative_prompt: model?.limits["negative_prompts"] ? form.negative.trim() : "",
    image: form.images.slice(0, limit(model, "max_input_images", 0)).map((file) => file.url),
    aspect_ratio: supported(form.aspectRatio, list(model, "aspect_ratios")),
    resolution: supported(form.resolution, list(model, "resolutions")),
    quality: supported(form.quality, list(model, "qualities")),
    output_format: form.format,
    num_images: form.number > 1 ? Math.min(form.number, limit(model, "max_images", 1)) : null,
    seed: form.seed,
  });
}

function imageLabel(form: MediaForm, model: Model | undefined): string {
  const at = [supported(form.resolution, list(model, "resolutions")), supported(form.quality, list(model, "qualities"))];
  return [plural(Math.min(form.number, limit(model, "max_images", 1)), "image"), at.filter(Boolean).join(", ")].filter(Boolean).join(" at ");
}

function videoBody(form: MediaForm, model: Model | undefined): Record<string, unknown> {
  const isReference = form.images.length > 1;
  return compactBody({
    model: form.model,
    prompt: form.prompt.trim(),
    negative_prompt: model?.limits["negative_prompts"] ? form.negative.trim() : "",
    images: isReference ? form.images.map((file) => file.url) : null,
    image: isReference ? null : form.images[0]?.url,
    duration: form.duration ? Number(form.duration) : null,
    aspect_ratio: supported(form.aspectRatio, list(model, "aspect_ratios")),
    resolution: supported(form.resolution, list(model, "resolutions")),
    // Models that can generate audio do so by default.
    generate_audio: model?.limits["audio"] && !form.hasAudio ? false : null,
    mode: supported(form.mode, model?.modes ?? []),
    seed: form.seed,
  });
}

function videoLabel(form: MediaForm, model: Model | undefined): string {
  const resolution = supported(form.resolution, list(model, "resolutions")) || (list(model, "resolutions")[0] ?? "");
  const seconds = supported(form.duration, list(model, "durations")) || (list(model, "durations")[0] ?? "");
  const hasAudio = !!model?.limits["audio"] && form.hasAudio;
  return `${seconds ? `${seconds} s` : "Video"}${resolution ? ` at ${resolution}` : ""}${hasAudio ? " with audio" : ""}`;
}

/** Returns a request without the bytes of its images, whose number alone determines the quote. */
function withoutBytes(body: Record<string, unknown>): Record<string, unknown> {
  const short = (value: unknown) => (Array.isArray(value) ? value.map(() => "data:,") : "data:,");
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, name === "image" || name === "images" ? short(value) : value]));
}

const FORMATS = ["png", "jpeg", "webp"];

/** Generates, edits and varies images. */
export function ImageMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(IMAGE_ENDPOINT);
  const form = imageForm.value;
  const model = currentModel(form, models);
  const current = { ...form, model: model?.id ?? "" };
  const change = (changes: Partial<MediaForm>) => {
    imageForm.value = { ...imageForm.peek(), ...changes };
  };
  return (
    <MediaMode
      {...props}
      mode="image"
      title="Image"
      path="/images/generations"
      body={imageBody(current, model)}
      labels={{ image: imageLabel(current, model) }}
      count={Math.min(form.number, limit(model, "max_images", 1))}
      submit="Generate"
      texts={{ running: "Generating images", done: "Images" }}
      hasInput={form.prompt.trim() !== "" || form.images.length > 0}
      empty="Describe an image. Its price is shown before the call, its progress and result here."
    >
      <ModelField models={models} value={current.model} onChange={(id) => change({ model: id })} />
      <Prompt form={form} model={model} onChange={change} />
      {limit(model, "max_input_images", 0) > 0 && (
        <InlineFiles
          label="Input images, optional"
          files={form.images}
          maximum={limit(model, "max_input_images", 0)}
          accept="image/png,image/jpeg,image/webp"
          hint={`PNG, JPEG or WebP up to 20 MiB, at most ${limit(model, "max_input_images", 1)}. The model edits them.`}
          onChange={(images) => change({ images })}
        />
      )}
      <ValueField label="Aspect ratio" hasDefault value={form.aspectRatio} values={list(model, "aspect_ratios")} onChange={(aspectRatio) => change({ aspectRatio })} />
      <div class="pair">
        {limit(model, "max_images", 1) > 1 ? (
          <ValueField
            label="Images"
            value={String(Math.min(form.number, limit(model, "max_images", 1)))}
            values={Array.from({ length: limit(model, "max_images", 1) }, (_, index) => String(index + 1))}
            onChange={(number) => change({ number: Number(number) })}
          />
        ) : null}
        <NumberField label="Seed" value={form.seed} minimum={0} maximum={2_147_483_647} onChange={(seed) => change({ seed })} />
      </div>
      <div class="pair">
        {list(model, "resolutions").length > 0 && (
          <ValueField label="Resolution" hasDefault isNarrow value={form.resolution} values={list(model, "resolutions")} onChange={(resolution) => change({ resolution })} />
        )}
        {list(model, "qualities").length > 0 && (
          <ValueField label="Quality" hasDefault isNarrow value={form.quality} values={list(model, "qualities")} onChange={(quality) => change({ quality })} />
        )}
        <ValueField label="Format" hasDefault isNarrow value={form.format} values={FORMATS} onChange={(format) => change({ format })} />
      </div>
    </MediaMode>
  );
}

/** Generates videos from texts and images. */
export function VideoMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const models = modelsFor(VIDEO_ENDPOINT);
  const form = videoForm.value;
  const model = currentModel(form, models);
  const current = { ...form, model: model?.id ?? "" };
  const change = (changes: Partial<MediaForm>) => {
    videoForm.value = { ...videoForm.peek(), ...changes };
  };
  const references = model?.modes.includes("r2v") ? Math.max(1, limit(model, "max_references", 1)) : 1;
  return (
    <MediaMode
      {...props}
      mode="video"
      title="Video"
      path="/videos/generations"
      body={videoBody(current, model)}
      labels={{ video: videoLabel(current, model) }}
      count={1}
      submit="Generate"
      texts={{ running: "Generating a video", done: "Video" }}
      hasInput={form.prompt.trim() !== "" || form.images.length > 0}
      empty="Describe a video. Its price is shown before the call, its progress and result here."
    >
      <ModelField models={models} value={current.model} onChange={(id) => change({ model: id })} />
      <Prompt form={form} model={model} onChange={change} />
      {model?.modalities.input.includes("image") && (
        <InlineFiles
          label="Images, optional"
          files={form.images}
          maximum={references}
          accept="image/png,image/jpeg,image/webp"
          hint={references > 1 ? `One image is the first frame; 2 to ${references} are references.` : "The first frame."}
          onChange={(images) => change({ images })}
        />
      )}
      <ValueField label="Duration in seconds" hasDefault value={form.duration} values={list(model, "durations").sort((a, b) => Number(a) - Number(b))} onChange={(duration) => change({ duration })} />
      <ValueField label="Aspect ratio" hasDefault value={form.aspectRatio} values={list(model, "aspect_ratios")} onChange={(aspectRatio) => change({ aspectRatio })} />
      <ValueField label="Resolution" hasDefault value={form.resolution} values={list(model, "resolutions")} onChange={(resolution) => change({ resolution })} />
      <div class="pair">
        {(model?.modes.length ?? 0) > 1 && (
          <ValueField label="Mode" hasDefault isNarrow value={form.mode} values={model?.modes ?? []} onChange={(mode) => change({ mode })} />
        )}
        <NumberField label="Seed" value={form.seed} minimum={0} maximum={2_147_483_647} onChange={(seed) => change({ seed })} />
      </div>
      {!!model?.limits["audio"] && (
        <label class="row">
          <input type="checkbox" class="cb" checked={form.hasAudio} onChange={(event) => change({ hasAudio: event.currentTarget.checked })} />
          Generate audio
        </label>
      )}
    </MediaMode>
  );
}

/** Returns the chosen model, or that of the address, or the first one. */
function currentModel(form: { model: string }, models: Model[]): Model | undefined {
  const named = place.value.params.get("model");
  return findModel(form.model) ?? models.find((model) => model.id === named) ?? models[0];
}

function Prompt(props: { form: MediaForm; model: Model | undefined; onChange: (changes: Partial<MediaForm>) => void }) {
  const { form, model } = props;
  const maximum = limit(model, "max_prompt_characters", 32_000);
  return (
    <>
      <TextArea
        label="Prompt"
        rows={5}
        value={form.prompt}
        maxLength={maximum}
        note={`${count(form.prompt.length)} of ${count(maximum)}`}
        onInput={(prompt) => props.onChange({ prompt })}
      />
      {!!model?.limits["negative_prompts"] && (
        <TextArea label="Negative prompt, optional" rows={1} value={form.negative} onInput={(negative) => props.onChange({ negative })} />
      )}
    </>
  );
}

function MediaMode(props: {
  tabs: ComponentChildren;
  mayCall: boolean;
  mode: string;
  title: string;
  path: string;
  body: Record<string, unknown>;
  labels: Record<string, string>;
  count: number;
  submit: string;
  texts: { running: string; done: string };
  hasInput: boolean;
  empty: string;
  children: ComponentChildren;
}) {
  const { jobs, add, remove } = useJobs(props.mode);
  const [sent, setSent] = useState<string | null>(null);
  const [counts, setCounts] = useState<Record<string, number>>({});
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const quoted = withoutBytes(props.body);
  const quote = useQuote(props.hasInput && props.mayCall ? JSON.stringify(quoted) : null, () => [{ endpoint: `/v1${props.path}`, request: quoted }]);
  const submit = () => {
    if (isBusy || !props.hasInput || !props.mayCall) return;
    setBusy(true);
    setError(null);
    setSent(JSON.stringify(props.body));
    request<{ job_id: string }>("POST", PUBLIC_API + props.path, { body: props.body, account: true })
      .then(
        (job) => {
          setCounts({ ...counts, [job.job_id]: props.count });
          add(job.job_id);
          void loadUsage();
        },
        (failure: unknown) => setError(failure),
      )
      .finally(() => setBusy(false));
  };
  const [latest, ...earlier] = jobs;
  return (
    <FormPage
      title={props.title}
      tabs={props.tabs}
      code={{ label: props.title, path: props.path, body: { json: sent ?? JSON.stringify(props.body) } }}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={submit}
          footer={<QuoteReceipt quote={quote} labels={props.labels} hint="The quote appears as you type." />}
          submit={
            <Button kind="primary" size="large" type="submit" class="grow" isBusy={isBusy} disabled={!props.hasInput || !props.mayCall}>
              {props.submit}
            </Button>
          }
        >
          {props.children}
        </CallForm>
      }
    >
      {latest ? (
        <JobCard key={latest} id={latest} count={counts[latest] ?? 1} texts={props.texts} onGone={() => remove(latest)} />
      ) : (
        <EmptyState title="No results in this tab yet">{props.empty}</EmptyState>
      )}
      <EarlierJobs jobs={earlier} onGone={remove} />
    </FormPage>
  );
}
