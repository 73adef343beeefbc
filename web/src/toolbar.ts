// The buttons for the range of time of all plots.

import type { App } from "./app";
import { flag, h, say } from "./dom";
import { clock } from "./format";
import { recorder } from "./recorder";
import { words } from "./text";

/** `objects` are those of the view, for reports. */
export function toolbar(
  app: App,
  objects?: () => string[],
): { node: HTMLElement; frame: () => void; close: () => void } {
  const { timeline } = app;
  const reports = objects && recorder(app, objects);
  const pause = h("button", { type: "button", class: "small", onclick: () => timeline.toggle() });
  const spans = SPANS.map(([seconds, name]) => {
    const node = h(
      "button",
      { type: "button", class: "small", onclick: () => timeline.setSpan(seconds) },
      name,
    );
    return { seconds, node };
  });
  const button = (label: string, sign: string, act: () => void) =>
    h(
      "button",
      { type: "button", class: "small icon", title: label, "aria-label": label, onclick: act },
      sign,
    );
  const range = h("span", { class: "range" });
  const tell = () => {
    say(pause, timeline.live ? words.pause : words.follow);
    flag(pause, "primary", !timeline.live);
    for (const { seconds, node } of spans)
      node.setAttribute("aria-pressed", String(Math.abs(timeline.span - seconds) < 0.5));
  };
  const frame = () => {
    const [from, to] = timeline.range();
    say(range, `${clock(from)} – ${clock(to)}`);
    reports?.frame();
  };
  const forget = timeline.listen(tell);
  tell();
  frame();
  const node = h(
    "div",
    { class: "toolbar", role: "toolbar", "aria-label": words.range },
    pause,
    h(
      "span",
      { class: "group", role: "group", "aria-label": words.span },
      ...spans.map((s) => s.node),
    ),
    h(
      "span",
      { class: "group" },
      button(words.back, "←", () => timeline.pan(-0.5)),
      button(words.forward, "→", () => timeline.pan(0.5)),
      button(words.closer, "+", () => timeline.zoom(0.5)),
      button(words.wider, "−", () => timeline.zoom(2)),
    ),
    range,
    reports?.buttons,
  );
  const close = () => {
    forget();
    reports?.close();
  };
  return { node: reports ? h("div", null, node, reports.links) : node, frame, close };
}

const SPANS = [
  [10, "10 s"],
  [60, "1 min"],
  [180, "3 min"],
  [900, "15 min"],
  [3600, "1 h"],
  [21600, "6 h"],
] as const;
