// The colours of the style sheet, for what is drawn on a canvas.

const cache = new Map<string, string>();
const listeners = new Set<() => void>();

/** A colour by the number in the palette or by the name of its token. */
export function colour(name: number | string, opacity = 1): string {
  const key = `${name}/${opacity}`;
  let value = cache.get(key);
  if (value === undefined) {
    const token = typeof name === "number" ? `--c${name}` : `--${name}`;
    value = getComputedStyle(document.documentElement).getPropertyValue(token).trim();
    if (opacity < 1) value = faded(value, opacity);
    cache.set(key, value);
  }
  return value;
}

function faded(hex: string, opacity: number): string {
  const full = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  const part = (at: number) => parseInt(full.slice(at, at + 2), 16);
  return `rgba(${part(1)},${part(3)},${part(5)},${opacity})`;
}

/** Calls the listener when the colours change. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export type Theme = "auto" | "light" | "dark";

export function setTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem("weir-theme", theme);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  changed();
}

export function savedTheme(): Theme {
  try {
    const saved = localStorage.getItem("weir-theme");
    return saved === "light" || saved === "dark" ? saved : "auto";
  } catch {
    return "auto";
  }
}

function changed(): void {
  cache.clear();
  for (const listener of listeners) listener();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

/** Whether the user wants less motion. */
export function still(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
