// A plot of curves over a quantity other than time. The pointer and the arrow keys select the
// values that the legend shows.

import { h, put, s, say } from "./dom";
import { csv, download } from "./export";
import { step, text, tick, type Unit } from "./format";
import { words } from "./text";

export interface Line {
  name: string;
  /** The number of its colour in the palette; if undefined, the colour of muted text. */
  colour: number | undefined;
  dash?: string | undefined;
  values: number[];
}

export interface Figure {
  title: string;
  description: string;
  xName: string;
  xUnit: Unit;
  yUnit: Unit;
  x: number[];
  lines: Line[];
  /** The ends of the y axis. Plots beside each other have the same ends. */
  range: [number, number];
}

export class CurvePlot {
  readonly node: HTMLElement;
  private readonly title = h("h2");
  private readonly legend = h("ul", { class: "legend" });
  private readonly holder: HTMLElement;
  private readonly note = h("p", { class: "sr", "aria-live": "polite" });
  private readonly observer: ResizeObserver;
  private readonly values: HTMLElement[] = [];
  private figure: Figure | undefined;
  /** The index of the values at the cursor. */
  private at: number | undefined;
  private cursor: SVGElement | undefined;
  private width = 0;

  constructor() {
    this.holder = h("div", {
      class: "canvas curves",
      tabindex: "0",
      role: "application",
      "aria-roledescription": words.plot,
      onkeydown: (e: KeyboardEvent) => this.key(e),
      onpointermove: (e: PointerEvent) => this.move(this.nearest(e.offsetX)),
      onpointerleave: () => this.move(undefined),
      onblur: () => this.move(undefined),
    });
    const save = h(
      "button",
      { type: "button", class: "small", onclick: () => this.save() },
      words.saveCsv,
    );
    this.node = h(
      "figure",
      { class: "chart" },
      h("figcaption", null, this.title, h("div", { class: "tools" }, save)),
      this.legend,
      this.holder,
      this.note,
    );
    this.observer = new ResizeObserver(() => {
      const { clientWidth } = this.holder;
      if (clientWidth === this.width) return;
      this.width = clientWidth;
      this.draw();
    });
    this.observer.observe(this.holder);
  }

  close(): void {
    this.observer.disconnect();
  }

  show(figure: Figure): void {
    this.figure = figure;
    say(this.title, figure.title);
    this.holder.setAttribute(
      "aria-label",
      `${figure.title}. ${figure.description} ${words.curveKeys}`,
    );
    this.values.length = 0;
    put(
      this.legend,
      ...figure.lines.map((line) => {
        const value = h("span", { class: "num" });
        this.values.push(value);
        const key = h("i", { class: `key ${line.dash ? "dashed" : ""}`, "aria-hidden": "true" });
        key.style.color = inkOf(line);
        return h("li", null, key, line.name, value);
      }),
    );
    this.draw();
  }

  private place(): {
    x: (value: number) => number;
    y: (value: number) => number;
    from: number;
    to: number;
  } {
    const { x, range } = this.figure!;
    const from = x[0] ?? 0;
    const to = Math.max(from + 1, x[x.length - 1] ?? 1);
    const [low, high] = range;
    return {
      x: (value) => LEFT + ((value - from) / (to - from)) * (this.width - LEFT - RIGHT),
      y: (value) => HEIGHT - BELOW - ((value - low) / (high - low || 1)) * (HEIGHT - BELOW - ABOVE),
      from,
      to,
    };
  }

  private draw(): void {
    const { figure } = this;
    if (!figure || this.width < 80) return;
    const at = this.place();
    const { range, x, lines } = figure;
    const node = s("svg", {
      width: this.width,
      height: HEIGHT,
      viewBox: `0 0 ${this.width} ${HEIGHT}`,
      "aria-hidden": "true",
    });
    const unit = step(Math.max(Math.abs(range[0]), Math.abs(range[1])), figure.yUnit);
    for (const value of ticks(range[0], range[1], 5)) {
      const y = at.y(value);
      node.append(
        s("path", {
          class: value === 0 ? "zero" : "grid",
          d: `M${LEFT} ${y}H${this.width - RIGHT}`,
        }),
        s("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, tick(value, unit)),
      );
    }
    node.append(s("text", { x: LEFT - 7, y: 11, "text-anchor": "end", class: "unit" }, unit[1]));
    const along = step(at.to, figure.xUnit);
    const spans = Math.max(2, Math.min(6, Math.floor(this.width / 110)));
    for (const value of ticks(at.from, at.to, spans)) {
      const px = at.x(value);
      node.append(
        s("path", { class: "axis", d: `M${px} ${HEIGHT - BELOW}v5` }),
        s(
          "text",
          { x: px, y: HEIGHT - 24, "text-anchor": px > this.width - RIGHT - 16 ? "end" : "middle" },
          tick(value, along),
        ),
      );
    }
    node.append(
      s(
        "text",
        { x: this.width - RIGHT, y: HEIGHT - 7, "text-anchor": "end", class: "unit" },
        `${figure.xName}, ${along[1]}`,
      ),
    );
    for (const line of lines) {
      const d = line.values
        .map((value, i) => `${i ? "L" : "M"}${at.x(x[i]!).toFixed(1)} ${at.y(value).toFixed(1)}`)
        .join("");
      const path = s("path", { class: "curve", d, "stroke-dasharray": line.dash });
      path.style.stroke = inkOf(line);
      node.append(path);
    }
    this.cursor = s("path", { class: "cursor", d: "" });
    node.append(this.cursor);
    put(this.holder, node);
    this.move(this.at);
  }

  private nearest(px: number): number | undefined {
    const { figure } = this;
    if (!figure?.x.length) return undefined;
    const part = (px - LEFT) / Math.max(1, this.width - LEFT - RIGHT);
    return Math.round(Math.min(1, Math.max(0, part)) * (figure.x.length - 1));
  }

  private move(to: number | undefined): void {
    const { figure } = this;
    this.at = to;
    if (!figure || !this.cursor) return;
    const known = to !== undefined && figure.x[to] !== undefined;
    this.cursor.setAttribute(
      "d",
      known ? `M${this.place().x(figure.x[to]!)} ${ABOVE}V${HEIGHT - BELOW}` : "",
    );
    figure.lines.forEach((line, i) =>
      say(this.values[i]!, known ? text(line.values[to]!, figure.yUnit) : ""),
    );
  }

  private key(e: KeyboardEvent): void {
    const { figure } = this;
    if (!figure) return;
    const last = figure.x.length - 1;
    const by = (e.shiftKey ? 20 : 1) * (e.key === "ArrowLeft" ? -1 : 1);
    if (e.key === "ArrowLeft" || e.key === "ArrowRight")
      this.move(Math.min(last, Math.max(0, (this.at ?? (by > 0 ? -1 : last + 1)) + by)));
    else if (e.key === "Home") this.move(0);
    else if (e.key === "End") this.move(last);
    else if (e.key === "Escape") this.move(undefined);
    else return;
    e.preventDefault();
    if (this.at === undefined) return;
    const read = figure.lines.map(
      (line) => `${line.name} ${text(line.values[this.at!]!, figure.yUnit)}`,
    );
    say(this.note, `${text(figure.x[this.at]!, figure.xUnit)}: ${read.join(", ")}`);
  }

  private save(): void {
    const { figure } = this;
    if (!figure) return;
    const columns = [
      { name: `${figure.xName} (B)`, values: figure.x },
      ...figure.lines.map((line) => ({ name: `${line.name} (B)`, values: line.values })),
    ];
    download(
      new Blob([csv(columns)], { type: "text/csv" }),
      `${figure.title.replace(/[^\w.+-]+/g, "-").toLowerCase()}.csv`,
    );
  }
}

function inkOf(line: Line): string {
  return line.colour === undefined ? "var(--muted)" : `var(--c${line.colour})`;
}

/** Round values between two ends, about `wanted` of them. */
export function ticks(from: number, to: number, wanted: number): number[] {
  const raw = (to - from) / Math.max(1, wanted);
  if (!(raw > 0)) return [from];
  const size = 10 ** Math.floor(Math.log10(raw));
  const by = size * ([1, 2, 5, 10].find((n) => n * size >= raw) ?? 10);
  const all: number[] = [];
  for (let n = Math.ceil(from / by - 1e-9); n * by <= to + by * 1e-9; n++) all.push(n * by + 0);
  return all;
}

/** The height of the plot and the margins of its area, px. */
const HEIGHT = 244;
const LEFT = 52;
const RIGHT = 12;
const ABOVE = 20;
const BELOW = 42;
