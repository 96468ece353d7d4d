import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { Button } from "../../parts/button.tsx";
import { Chip, Segments } from "../../parts/data.tsx";
import { SearchField } from "../../parts/field.tsx";
import { Filter } from "../../parts/filter.tsx";
import { Icon } from "../../parts/icon.tsx";
import { EmptyState, ErrorState, Skeleton } from "../../parts/states.tsx";
import { PUBLIC_API, request } from "../../shell/api.ts";
import { plural } from "../../shell/format.ts";
import { Page } from "../../shell/page.tsx";
import { useResource } from "../../shell/resource.ts";
import { href, place, setParams } from "../../shell/router.ts";
import { account } from "../../shell/session.ts";
import type { List, Recipe, Template } from "../../shell/types.ts";
import { RecipeDialog, TemplateDialog } from "./details.tsx";
import { capitalised, previewOf, RECIPES, typeLabel, visualsLabel } from "./templates.ts";

/** Templates for images and videos, and recipes of compositions. */
export function Screen() {
  const id = account.value?.id ?? null;
  const templates = useResource(id, (signal) =>
    request<List<Template>>("GET", `${PUBLIC_API}/templates`, { account: true, signal }),
  );
  const recipes = useResource(id, (signal) =>
    request<List<Recipe>>("GET", `${PUBLIC_API}/videos/compose/recipes`, { account: true, signal }),
  );
  const [query, setQuery] = useState("");
  const { params } = place.value;
  const all = templates.data?.data ?? [];
  const types = [...new Set(all.map((one) => one.type))];
  const views = [
    { value: "", label: "All" },
    ...types.map((type) => ({ value: type, label: typeLabel(type) })),
    ...(recipes.data?.data.length ? [{ value: RECIPES, label: "Compositions" }] : []),
  ];
  const view = views.find((one) => one.value === params.get("type"))?.value ?? "";
  const categories = [...new Set(all.filter((one) => !view || one.type === view).map((one) => one.category))].sort();
  const category = categories.find((one) => one === params.get("category")) ?? "";
  const matches = (text: string) =>
    query
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.toLowerCase().includes(word));
  const shown = all.filter(
    (one) =>
      (!view || one.type === view) &&
      (!category || one.category === category) &&
      matches(`${one.title} ${one.slug} ${one.description} ${one.category}`),
  );
  const shownRecipes = (recipes.data?.data ?? []).filter(
    (one) => (!view || view === RECIPES) && !category && matches(`${one.title} ${one.slug} ${one.description}`),
  );
  const opened = all.find((one) => one.slug === params.get("template"));
  const openedRecipe = recipes.data?.data.find((one) => one.slug === params.get("recipe"));
  const reset = () => {
    setQuery("");
    setParams({ type: null, category: null });
  };
  const isLoading = !templates.data && !templates.error;
  const number = shown.length + shownRecipes.length;
  return (
    <Page title="Templates">
      <div class="filters wrap">
        <SearchField label="Name, category or purpose" value={query} onInput={setQuery} />
        {views.length > 2 && (
          <Segments
            label="Type"
            value={view}
            options={views}
            onChange={(type) => setParams({ type, category: null })}
          />
        )}
        {categories.length > 0 && (
          <Filter
            label="Category"
            value={category}
            options={categories.map((one) => ({ value: one, label: capitalised(one) }))}
            onChange={(value) => setParams({ category: value })}
          />
        )}
        <span class="end muted t12 num" role="status">
          {templates.data && plural(number, "template")}
        </span>
      </div>
      {templates.error && !templates.data ? (
        <section class="card after-filters">
          <ErrorState what="The templates" error={templates.error} onRetry={templates.reload} />
        </section>
      ) : isLoading ? (
        <div class="gallery after-filters">
          {Array.from({ length: 8 }, (_, index) => (
            <div key={index} class="tile">
              <Skeleton width="100%" height={180} />
            </div>
          ))}
        </div>
      ) : number === 0 ? (
        <section class="card after-filters">
          {all.length === 0 && !recipes.data?.data.length ? (
            <EmptyState title="No templates">
              The gateway has no templates. An operator can add them to its settings.
            </EmptyState>
          ) : (
            <EmptyState title="No template matches" action={<Button onClick={reset}>Show all templates</Button>} />
          )}
        </section>
      ) : (
        <>
          {shown.length > 0 && (
            <section class="after-filters">
              <h2 class="sr">Templates of images and videos</h2>
              <ul class="gallery" aria-label="Templates">
                {shown.map((one) => (
                  <Tile
                    key={one.slug}
                    address={addressOf("template", one.slug)}
                    title={one.title}
                    note={one.description}
                    preview={<img src={previewOf(one)} alt="" loading="lazy" />}
                    chips={
                      <>
                        <Chip>{capitalised(one.category)}</Chip>
                        {typeof one.default_params["aspect_ratio"] === "string" && (
                          <span class="muted t12 num">{one.default_params["aspect_ratio"]}</span>
                        )}
                        {one.type === "video" && (
                          <span class="end muted row g4 t12">
                            <Icon name="play" small />
                            Video
                          </span>
                        )}
                      </>
                    }
                  />
                ))}
              </ul>
            </section>
          )}
          {shownRecipes.length > 0 && (
            <section class="stack g12">
              <div class="row">
                <h2>Recipes of compositions</h2>
                <span class="muted t12">a script, a voice, visuals, captions and music in one video</span>
              </div>
              <ul class="gallery" aria-label="Recipes">
                {shownRecipes.map((one) => (
                  <Tile
                    key={one.slug}
                    address={addressOf("recipe", one.slug)}
                    title={one.title}
                    note={one.description}
                    preview={null}
                    chips={
                      <>
                        <Chip>{plural(one.scenes, "scene")}</Chip>
                        <span class="muted t12 num">{one.aspect_ratio}</span>
                        <span class="end muted t12 trunc">{one.available ? visualsLabel(one.visuals) : "Not available"}</span>
                      </>
                    }
                  />
                ))}
              </ul>
            </section>
          )}
          {recipes.error && !recipes.data && (
            <section class="card">
              <ErrorState what="The recipes" error={recipes.error} onRetry={recipes.reload} />
            </section>
          )}
        </>
      )}
      {opened && <TemplateDialog template={opened} onClose={() => setParams({ template: null })} />}
      {openedRecipe && <RecipeDialog recipe={openedRecipe} onClose={() => setParams({ recipe: null })} />}
    </Page>
  );
}

function addressOf(name: "template" | "recipe", slug: string): string {
  const query = new URLSearchParams(place.value.params);
  query.set(name, slug);
  return href(`/templates?${query.toString()}`);
}

function Tile(props: {
  address: string;
  title: string;
  note: string;
  preview: ComponentChildren;
  chips: ComponentChildren;
}) {
  return (
    <li class="tile">
      {props.preview}
      <div class="tile-text">
        <h3>
          <a class="tilelink" href={props.address}>
            {props.title}
          </a>
        </h3>
        <p class="muted t12">{props.note}</p>
        <div class="row t12">{props.chips}</div>
      </div>
    </li>
  );
}
