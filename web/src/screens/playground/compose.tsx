import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Field, Options, Select } from "../../parts/field.tsx";
import { Banner, EmptyState, Skeleton } from "../../parts/states.tsx";
import { TextArea } from "../../parts/text-area.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { plural } from "../../shell/format.ts";
import { useResource } from "../../shell/resource.ts";
import { account } from "../../shell/session.ts";
import type { Job, List, Recipe } from "../../shell/types.ts";
import { loadUsage } from "../../shell/usage.ts";
import { priceOf } from "../jobs/jobs.ts";
import { modelsFor } from "./catalog.ts";
import { CallForm, compactBody, FormPage, modeState, Receipt } from "./forms.tsx";
import { JobCard, useJobs } from "./job.tsx";
import { IMAGE_ENDPOINT, VIDEO_ENDPOINT } from "./media.tsx";
import { quoteText, useQuote } from "./quote.ts";

const COMPOSE_ENDPOINT = "/v1/videos/compose";

interface Visual {
  prompt?: string;
  model?: string;
  image?: string;
  video?: string;
  motion?: string;
}

interface Scene {
  id?: string;
  narration?: string;
  visual: Visual;
  duration?: number;
  transition?: string;
}

interface Storyboard {
  title?: string;
  scenes: Scene[];
  [name: string]: unknown;
}

const TRANSITIONS = ["cut", "fade", "slide_left", "wipe", "dissolve"] as const;
const MOTIONS = ["in", "out", "left", "right", "still"] as const;
const MOODS = ["", "calm", "bright", "tense", "warm", "none"] as const;
const CAPTIONS = ["", "karaoke", "plain", "boxed", "none"] as const;

const MAX_SCENES = 20;
const MAX_NARRATION = 600;

type Source = "topic" | "script";

const form = modeState({
  recipe: "",
  source: "topic" as Source,
  text: "",
  scenes: "3",
  visualModel: "",
  aspectRatio: "",
  resolution: "",
  captions: "" as (typeof CAPTIONS)[number],
  music: "" as (typeof MOODS)[number],
  voice: "",
});

/** The storyboard that is edited, with the plan that it comes from. */
const storyboard = modeState<{ plan: string; board: Storyboard; isChanged: boolean } | null>(null);

function labelOf(value: string): string {
  return value === "" ? "Default" : value === "none" ? "None" : value.charAt(0).toUpperCase() + value.slice(1).replaceAll("_", " ");
}

function options<T extends string>(values: readonly T[]): { value: T; label: string }[] {
  return values.map((value) => ({ value, label: labelOf(value) }));
}

/** Plans a video of several scenes, edits its storyboard, and renders it. */
export function ComposeMode(props: { tabs: ComponentChildren; mayCall: boolean }) {
  const recipes = useResource(account.value?.id ?? null, (signal) =>
    request<List<Recipe>>("GET", `${PUBLIC_API}/videos/compose/recipes`, { account: true, signal }),
  );
  const { jobs, add, remove } = useJobs("compose");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState<"plan" | "render" | null>(null);
  const [sent, setSent] = useState<string | null>(null);
  const current = form.value;
  const change = (changes: Partial<typeof current>) => {
    form.value = { ...form.peek(), ...changes };
  };
  const list = recipes.data?.data ?? [];
  const recipe = list.find((one) => one.slug === current.recipe) ?? list[0];
  const visuals = recipe?.visuals === "videos" ? modelsFor(VIDEO_ENDPOINT) : modelsFor(IMAGE_ENDPOINT);
  const plan = compactBody({
    mode: "plan",
    recipe: recipe?.slug,
    [current.source]: current.text.trim(),
    scenes: current.source === "topic" ? Number(current.scenes) : null,
    visual_model: visuals.some((model) => model.id === current.visualModel) ? current.visualModel : "",
    aspect_ratio: recipe?.aspect_ratios.includes(current.aspectRatio) ? current.aspectRatio : "",
    resolution: recipe?.resolutions.includes(current.resolution) ? current.resolution : "",
    captions: current.captions === "none" ? "none" : current.captions ? { style: current.captions } : null,
    music: current.music === "none" ? "none" : current.music ? { mood: current.music } : null,
    voice: current.voice === "none" ? "none" : current.voice ? { voice: current.voice } : null,
  });
  const send = (kind: "plan" | "render", body: Record<string, unknown>) => {
    if (isBusy || !props.mayCall) return;
    setBusy(kind);
    setError(null);
    setSent(JSON.stringify(body));
    request<{ job_id: string }>("POST", `${PUBLIC_API}/videos/compose`, { body, account: true })
      .then(
        (job) => {
          add(job.job_id);
          void loadUsage();
        },
        (failure: unknown) => setError(failure),
      )
      .finally(() => setBusy(null));
  };
  const isComplete = current.text.trim() !== "" && !!recipe && recipe.available && props.mayCall;
  const quote = useQuote(isComplete ? JSON.stringify(plan) : null, () => [{ endpoint: COMPOSE_ENDPOINT, request: plan }]);
  const board = storyboard.value;
  const [latest, ...earlier] = jobs;
  return (
    <FormPage
      title="Composition"
      tabs={props.tabs}
      code={recipe ? { label: "Composition", path: "/videos/compose", body: { json: sent ?? JSON.stringify(plan) } } : null}
      isSent={sent !== null}
      form={
        <CallForm
          error={error}
          onSubmit={() => isComplete && send("plan", plan)}
          footer={
            <>
              <p class="muted t12">A plan costs only its script. It returns the storyboard and the price of its render.</p>
              <p class={`t12 num ${quote.error || !quote.isSufficient ? "warn" : "muted"}`}>{quoteText(quote, 4)}</p>
            </>
          }
          submit={
            <Button
              {...(board ? {} : { kind: "primary" as const })}
              size="large"
              type="submit"
              class="grow"
              isBusy={isBusy === "plan"}
              disabled={!isComplete}
            >
              {board ? "Plan again" : "Plan"}
            </Button>
          }
        >
          {!recipes.data && !recipes.error && <Skeleton width="100%" height={60} />}
          {recipes.error && <Banner kind="failure">{recipes.error.message}</Banner>}
          {recipe && !recipe.available && (
            <Banner kind="warning">
              The service cannot render videos: {recipe.missing.join("; ")}
            </Banner>
          )}
          {recipe && (
            <Select
              label="Recipe"
              value={recipe.slug}
              options={list.map((one) => ({ value: one.slug, label: one.title }))}
              hint={recipe.description}
              onChange={(slug) => change({ recipe: slug })}
            />
          )}
          <Options
            label="Source"
            value={current.source}
            options={[
              { value: "topic", label: "Topic" },
              { value: "script", label: "Script" },
            ]}
            onChange={(source: Source) => change({ source })}
          />
          <TextArea
            label={current.source === "topic" ? "Topic" : "Script"}
            rows={current.source === "topic" ? 3 : 8}
            value={current.text}
            maxLength={current.source === "topic" ? 2000 : 12_000}
            hint={current.source === "topic" ? "A chat model writes the script." : "Spoken verbatim. Each paragraph becomes a scene."}
            onInput={(text) => change({ text })}
          />
          {current.source === "topic" && (
            <Select
              label="Scenes"
              value={current.scenes}
              options={Array.from({ length: MAX_SCENES }, (_, index) => ({ value: String(index + 1), label: String(index + 1) }))}
              onChange={(scenes) => change({ scenes })}
            />
          )}
          {recipe?.visuals !== "own" && visuals.length > 0 && (
            <Select
              label="Model of the visuals"
              value={current.visualModel}
              options={[{ value: "", label: "Default" }, ...visuals.map((model) => ({ value: model.id, label: model.id }))]}
              onChange={(visualModel) => change({ visualModel })}
            />
          )}
          <div class="pair">
            <Select label="Aspect ratio" value={current.aspectRatio} options={options(["", ...(recipe?.aspect_ratios ?? [])])} onChange={(aspectRatio) => change({ aspectRatio })} />
            <Select label="Resolution" value={current.resolution} options={options(["", ...(recipe?.resolutions ?? [])])} onChange={(resolution) => change({ resolution })} />
          </div>
          <div class="pair">
            <Select label="Captions" value={current.captions} options={options(CAPTIONS)} onChange={(captions) => change({ captions })} />
            <Select label="Music" value={current.music} options={options(MOODS)} onChange={(music) => change({ music })} />
          </div>
          <Field label="Voice, optional" value={current.voice} hint="A voice of the speech model, or none." onInput={(voice) => change({ voice })} />
        </CallForm>
      }
    >
      {latest ? (
        <JobCard
          key={latest}
          id={latest}
          texts={{ running: "Composing", done: "Composition" }}
          onGone={() => remove(latest)}
          {...resultOf()}
        />
      ) : (
        !board && <EmptyState title="No composition yet">Plan first: you can edit each scene before it is rendered and charged.</EmptyState>
      )}
      {board && (
        <StoryboardEditor
          isBusy={isBusy === "render"}
          mayCall={props.mayCall}
          onRender={(body) => send("render", body)}
        />
      )}
      {earlier.map((id) => (
        <JobCard key={id} id={id} texts={{ running: "Composing", done: "Composition" }} onGone={() => remove(id)} {...resultOf()} />
      ))}
    </FormPage>
  );
}

/** Plans show their price, and open their storyboard; renders show their video. */
function resultOf(): { result?: (job: Job) => ComponentChildren } {
  return {
    result: (job) => (job.result?.["object"] === "storyboard" ? <PlanResult job={job} /> : <RenderResult job={job} />),
  };
}

function PlanResult(props: { job: Job }) {
  const { job } = props;
  const board = job.result?.["storyboard"] as Storyboard | undefined;
  const isOpen = storyboard.value?.plan === job.id;
  const load = () => {
    if (board) storyboard.value = { plan: job.id, board: structuredClone(board), isChanged: false };
  };
  useEffect(() => {
    // A new plan opens, unless it would replace edits of another one.
    if (!storyboard.peek()?.isChanged) load();
  }, [job.id]);
  const lines = (priceOf(job)?.lines ?? []).map((line) => ({ label: line.name, detail: line.model ?? "", cost: line.cost }));
  return (
    <div class="stack g12">
      {lines.length > 0 && <Receipt lines={lines} sum="Price of the render" />}
      {!isOpen && (
        <div class="row">
          <Button size="small" icon="edit" onClick={load}>
            Edit this storyboard
          </Button>
        </div>
      )}
    </div>
  );
}

function RenderResult(props: { job: Job }) {
  const { result } = props.job;
  const address = typeof result?.["video_url"] === "string" ? result["video_url"] : "";
  const url = URL.parse(address);
  const source = url?.origin === location.origin ? url.href : null;
  if (!source) return <p class="muted">The video cannot be shown here. Open the job.</p>;
  return (
    <div class="tiles video">
      <figure>
        <video src={source} controls playsInline preload="metadata" aria-label="The composed video" />
      </figure>
    </div>
  );
}

/** Returns a storyboard without empty members. */
function cleaned(board: Storyboard): Record<string, unknown> {
  return {
    ...board,
    scenes: board.scenes.map((scene) => ({
      ...compactBody({ ...scene, narration: scene.narration?.trim() }),
      visual: compactBody({ ...scene.visual }),
    })),
  };
}

function StoryboardEditor(props: {
  isBusy: boolean;
  mayCall: boolean;
  onRender: (body: Record<string, unknown>) => void;
}) {
  const list = useRef<HTMLOListElement>(null);
  const state = storyboard.value;
  const scenes = state?.board.scenes ?? [];
  const isValid = scenes.length > 0 && scenes.every((scene) => scene.visual.prompt?.trim() || scene.visual.image || scene.visual.video);
  const body = { mode: "render", storyboard: state && cleaned(state.board) };
  const quote = useQuote(isValid && props.mayCall ? JSON.stringify(body) : null, () => [{ endpoint: COMPOSE_ENDPOINT, request: body }]);
  if (!state) return null;
  const { board } = state;
  const change = (next: Partial<Storyboard>) => {
    storyboard.value = { ...state, board: { ...board, ...next }, isChanged: true };
  };
  const edit = (index: number, changes: Partial<Scene>) =>
    change({ scenes: scenes.map((scene, at) => (at === index ? { ...scene, ...changes } : scene)) });
  const move = (index: number, to: number) => {
    const rest = scenes.filter((_, at) => at !== index);
    change({ scenes: rest.toSpliced(to, 0, scenes[index] as Scene) });
    // An element that moves in the page loses the focus: its button receives it again.
    requestAnimationFrame(() => {
      const buttons = [...(list.current?.children[to]?.querySelectorAll<HTMLButtonElement>("button:enabled") ?? [])];
      (buttons.find((button) => button.ariaLabel?.endsWith(to < index ? "up" : "down")) ?? buttons[0])?.focus();
    });
  };
  return (
    <section class="stack g12" aria-label="Storyboard">
      <header class="row wrap">
        <h2>Storyboard</h2>
        <span class="muted t12">{plural(scenes.length, "scene")}</span>
        <span class="end row">
          <span class={`t12 num ${quote.error || !quote.isSufficient ? "warn" : "muted"}`} role="status">
            {quoteText(quote, 4)}
          </span>
          <Button kind="primary" isBusy={props.isBusy} disabled={!isValid || !props.mayCall} onClick={() => props.onRender(body)}>
            Render
          </Button>
        </span>
      </header>
      <Field label="Title" value={board.title ?? ""} onInput={(title) => change({ title })} />
      <ol ref={list} class="stack g12">
        {scenes.map((scene, index) => (
          <li key={scene.id ?? index} class="boxed stack g12">
            <div class="row">
              <h3 class="grow">Scene {index + 1}</h3>
              <Button size="small" kind="bare" disabled={index === 0} label={`Move scene ${index + 1} up`} icon="left" class="turned" onClick={() => move(index, index - 1)} />
              <Button
                size="small"
                kind="bare"
                disabled={index === scenes.length - 1}
                label={`Move scene ${index + 1} down`}
                icon="down"
                onClick={() => move(index, index + 1)}
              />
              <Button
                size="small"
                kind="bare"
                disabled={scenes.length === 1}
                label={`Remove scene ${index + 1}`}
                icon="remove"
                onClick={() => change({ scenes: scenes.filter((_, at) => at !== index) })}
              />
            </div>
            <TextArea
              label="Narration"
              rows={2}
              maxLength={MAX_NARRATION}
              note={`${scene.narration?.length ?? 0} of ${MAX_NARRATION}`}
              value={scene.narration ?? ""}
              onInput={(narration) => edit(index, { narration })}
            />
            {scene.visual.image || scene.visual.video ? (
              <p class="muted t12 trunc">Shows {scene.visual.image ? "an image" : "a video"} of the request.</p>
            ) : (
              <TextArea
                label="Prompt of the visual"
                rows={2}
                value={scene.visual.prompt ?? ""}
                onInput={(prompt) => edit(index, { visual: { ...scene.visual, prompt } })}
              />
            )}
            <div class="pair three">
              <Select
                label="Transition"
                value={scene.transition ?? "cut"}
                options={options(TRANSITIONS)}
                onChange={(transition) => edit(index, { transition })}
              />
              <Select
                label="Motion"
                value={scene.visual.motion ?? "in"}
                options={options(MOTIONS)}
                onChange={(motion) => edit(index, { visual: { ...scene.visual, motion } })}
              />
              <Select
                label="At least"
                value={String(scene.duration ?? "")}
                options={[{ value: "", label: "As spoken" }, ...Array.from({ length: 30 }, (_, at) => ({ value: String(at + 1), label: `${at + 1} s` }))]}
                onChange={(value) => {
                  const { duration: _, ...rest } = scene;
                  change({ scenes: scenes.map((one, at) => (at === index ? { ...rest, ...(value ? { duration: Number(value) } : {}) } : one)) });
                }}
              />
            </div>
          </li>
        ))}
      </ol>
      {scenes.length < MAX_SCENES && (
        <div class="row">
          <Button
            size="small"
            icon="plus"
            onClick={() => change({ scenes: [...scenes, { id: nextId(scenes), narration: "", visual: { prompt: "", motion: "in" }, transition: "cut" }] })}
          >
            Add scene
          </Button>
        </div>
      )}
    </section>
  );
}

function nextId(scenes: Scene[]): string {
  const ids = new Set(scenes.map((scene) => scene.id));
  let number = scenes.length + 1;
  while (ids.has(`scene-${number}`)) number += 1;
  return `scene-${number}`;
}
