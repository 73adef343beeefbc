// Elements of the page. Every text becomes a text node, so that names are never read as HTML.

export type Child = Node | string | number | null | undefined | false | Child[];
type Value = string | number | boolean | null | undefined | ((event: never) => void);
export type Attributes = Record<string, Value>;

function fill(node: Element, attributes: Attributes | null | undefined, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      node.addEventListener(name.slice(2), value as EventListener);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(node, children);
}

/** Appends children; nothing for `null`, `undefined` and `false`. */
export function add(node: Element, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(typeof child === "number" ? String(child) : child);
  }
}

/** A new HTML element. An attribute `onclick` with a function is a listener for `click`. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

/** A new SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes?: Attributes | null,
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}

/** Sets the text of an element, only if it differs: an unchanged text causes no layout. */
export function say(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes a class. */
export function flag(node: Element, name: string, on: boolean): void {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

/** Replaces the children. */
export function put(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  add(node, children);
}

/** The text of the input that caused an event. */
export function typed(event: Event): string {
  return (event.target as HTMLInputElement).value;
}
