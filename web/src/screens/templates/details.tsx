import { Button } from "../../parts/button.tsx";
import { Code, CopyButton } from "../../parts/code.tsx";
import { Chip } from "../../parts/data.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Banner } from "../../parts/states.tsx";
import { plural } from "../../shell/format.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import type { Recipe, Template } from "../../shell/types.ts";
import { capitalised, playgroundOf, previewOf, recipePlayground, settingText, typeLabel, visualsLabel } from "./templates.ts";

/** Prompt, parameters and models of a template. */
export function TemplateDialog(props: { template: Template; onClose: () => void }) {
  const { template } = props;
  return (
    <Dialog
      title={template.title}
      isSide
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>Close</Button>
          {mayMakeCalls() && template.recommended_model && (
            <a class="btn pri" href={playgroundOf(template)}>
              Try
            </a>
          )}
        </>
      }
    >
      <img class="preview" src={previewOf(template)} alt={`Preview of ${template.title}`} />
      <p>{template.description}</p>
      <div class="row wrap">
        <Chip>{typeLabel(template.type)}</Chip>
        <Chip>{capitalised(template.category)}</Chip>
        <span class="row g4">
          <code>{template.slug}</code>
          <CopyButton text={template.slug} label="Copy the slug" />
        </span>
      </div>
      <Wrapped label="Prompt" text={template.canonical_prompt} />
      <dl class="kv lines">
        {template.default_subject && (
          <>
            <dt>Default subject</dt>
            <dd>{template.default_subject}</dd>
          </>
        )}
        <Settings values={template.default_params} />
        <dt>Models</dt>
        <dd class="stack g2">
          {template.supported_models.length === 0
            ? "No model of the gateway supports the template"
            : template.supported_models.map((model) => (
                <span key={model}>
                  {model}
                  {model === template.recommended_model && <span class="muted">, recommended</span>}
                </span>
              ))}
        </dd>
        <dt>Version</dt>
        <dd class="num">{template.version}</dd>
      </dl>
    </Dialog>
  );
}

/** Default settings of a recipe for compositions. */
export function RecipeDialog(props: { recipe: Recipe; onClose: () => void }) {
  const { recipe } = props;
  return (
    <Dialog
      title={recipe.title}
      isSide
      onClose={props.onClose}
      footer={
        <>
          <Button onClick={props.onClose}>Close</Button>
          {mayMakeCalls() && recipe.available && (
            <a class="btn pri" href={recipePlayground(recipe)}>
              Try
            </a>
          )}
        </>
      }
    >
      {!recipe.available && (
        <Banner kind="warning">
          The gateway cannot render compositions. It lacks: {recipe.missing.join(", ") || "a program"}.
        </Banner>
      )}
      <p>{recipe.description}</p>
      <div class="row wrap">
        <Chip>Composition</Chip>
        <span class="row g4">
          <code>{recipe.slug}</code>
          <CopyButton text={recipe.slug} label="Copy the slug" />
        </span>
      </div>
      <dl class="kv lines">
        <dt>Visuals</dt>
        <dd>{visualsLabel(recipe.visuals)}</dd>
        <dt>Scenes</dt>
        <dd class="num">{plural(recipe.scenes, "scene")}</dd>
        <dt>Size</dt>
        <dd class="num">
          {recipe.aspect_ratio}, {recipe.resolution}
        </dd>
        <dt>Aspect ratios</dt>
        <dd class="num">{recipe.aspect_ratios.join(", ")}</dd>
        <dt>Resolutions</dt>
        <dd class="num">{recipe.resolutions.join(", ")}</dd>
        <dt>Transition</dt>
        <dd>{capitalised(recipe.transition)}</dd>
        <dt>Captions</dt>
        <dd>{valuesOf(recipe.captions)}</dd>
        <dt>Music</dt>
        <dd>{valuesOf(recipe.music)}</dd>
        <dt>Version</dt>
        <dd class="num">{recipe.version}</dd>
      </dl>
      <Wrapped label="Tone of the script" text={recipe.tone} />
      <Wrapped label="Style of the scenes" text={recipe.look} />
    </Dialog>
  );
}

/** A text that wraps, with a button that copies it. */
function Wrapped(props: { label: string; text: string }) {
  return (
    <div class="wrapped">
      <Code language={props.label} text={props.text} />
    </div>
  );
}

function Settings(props: { values: Record<string, unknown> }) {
  return Object.entries(props.values).map(([name, value]) => (
    <>
      <dt key={name}>{capitalised(name)}</dt>
      <dd>{settingText(value)}</dd>
    </>
  ));
}

function valuesOf(settings: Record<string, unknown>): string {
  const values = Object.entries(settings).map(([name, value]) =>
    typeof value === "string" ? value : `${settingText(value)} ${name.replaceAll("_", " ")}`,
  );
  return values.join(", ") || "None";
}
