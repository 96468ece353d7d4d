import { Button } from "../../parts/button.tsx";
import { plural } from "../../shell/format.ts";
import { href } from "../../shell/router.ts";
import { mayMakeCalls } from "../../shell/roles.ts";
import type { Model } from "../../shell/types.ts";
import { bestOf, COMPARISONS, isText, shortName } from "./catalog.ts";

/** Returns the address of the playground with models. */
export function playgroundOf(models: Model[]): string {
  const query = models.map((model) => `model=${encodeURIComponent(model.id)}`).join("&");
  return href(`/playground?${query}`);
}

/** The chosen models side by side. */
export function Compare(props: { models: Model[]; onClear: () => void }) {
  const { models } = props;
  const lines = COMPARISONS.filter((line) => models.some((model) => line.value(model) !== null));
  const areChats = models.every((model) => model.type === "chat");
  return (
    <section class="cmp" aria-label="Comparison">
      <header class="ch">
        <h2>Compare {plural(models.length, "model")}</h2>
        <span class="muted t12">better value in bold</span>
        <span class="row end">
          <Button size="small" onClick={props.onClear}>
            Clear
          </Button>
          {mayMakeCalls() && areChats && (
            <a class="btn sm pri" href={playgroundOf(models)}>
              {models.length > 1 ? "Try side by side" : "Try"}
            </a>
          )}
        </span>
      </header>
      <div class="cgw" tabIndex={0} role="region" aria-label="Values">
        <dl class="cg">
          <div>
            <dt class="muted t12">{models.some(isText) ? "per 1 M tokens" : "Model"}</dt>
            {models.map((model) => (
              <dd key={model.id} class="strong5 trunc" title={model.id}>
                {shortName(model.id)}
              </dd>
            ))}
          </div>
          {lines.map((line) => {
            const best = bestOf(models, line);
            return (
              <div key={line.label}>
                <dt class="muted t12">{line.label}</dt>
                {models.map((model) => (
                  <dd key={model.id} class={best.has(model) ? "num strong nowrap" : "num nowrap"}>
                    <span class="sr">{shortName(model.id)}: </span>
                    {line.value(model) ?? <span class="muted">–</span>}
                    {best.has(model) && <span class="sr">, better</span>}
                  </dd>
                ))}
              </div>
            );
          })}
        </dl>
      </div>
    </section>
  );
}
