import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const STORED = "tollgate.theme";

export const THEMES: readonly { value: Theme; label: string }[] = [
  { value: "system", label: "System" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

function read(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

export const theme = signal<Theme>(read());

export function setTheme(next: Theme): void {
  theme.value = next;
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  store(STORED, next === "system" ? null : next);
}

/** Stores a preference; null removes it. Browsers may forbid storage: the page works without. */
export function store(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // The preference holds until the page is closed.
  }
}

export function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
