import { href } from "../../shell/router.ts";
import type { Recipe, Template } from "../../shell/types.ts";

const TYPES: Record<string, string> = { image: "Images", video: "Videos", text: "Texts" };

export const RECIPES = "composition";

export function typeLabel(type: string): string {
  return TYPES[type] ?? type;
}

/** Returns the address of a preview, which needs no session. */
export function previewOf(template: Template): string {
  return `/v1/templates/${encodeURIComponent(template.slug)}/preview`;
}

/** Returns the address of the playground with a template. */
export function playgroundOf(template: Template): string {
  const params = new URLSearchParams({ template: template.slug });
  if (template.recommended_model) params.set("model", template.recommended_model);
  return href(`/playground?${params.toString()}`);
}

export function recipePlayground(recipe: Recipe): string {
  return href(`/playground?${new URLSearchParams({ recipe: recipe.slug }).toString()}`);
}

const VISUALS: Record<string, string> = {
  images: "Generated images with camera motion",
  videos: "Generated videos",
  own: "Your images",
};

export function visualsLabel(visuals: string): string {
  return VISUALS[visuals] ?? visuals;
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replaceAll("_", " ");
}

/** Returns a value of a default setting for display. */
export function settingText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
