// How many instances have which value, over time: a column a second, a row for each power of two.

import { h, put, say } from "./dom";
import { clock, count, text, type Unit } from "./format";
import { colour, onTheme } from "./theme";
import { words } from "./text";

interface Column {
  t: number;
  bins: number[];
}

export class HeatMap {
  readonly node: HTMLElement;
  private readonly canvas = h("canvas", { "aria-hidden": "true" });
  private readonly holder: HTMLElement;
  private readonly reading = h("p", { class: "remark", "aria-live": "polite" });
  private readonly table = h("table", { class: "numbers" });
  private readonly title = h("h2");
  private columns: Column[] = [];
  /** The number of columns pushed since the map was cleared. */
  private pushed = 0;
  private unit: Unit = "bps";
  private dirty = true;
  /** The cell at the cursor: its column, counted back from the newest, and its row. */
  private at: [number, number] | undefined;
  private readonly unsubscribe: () => void;
  private readonly observer: ResizeObserver;

  constructor() {
    this.holder = h(
      "div",
      {
        class: "heat",
        tabindex: "0",
        role: "application",
        "aria-label": words.heatHelp,
        onpointermove: (e: PointerEvent) => this.point(e),
        onpointerleave: () => this.leave(),
        onblur: () => this.leave(),
        onkeydown: (e: KeyboardEvent) => this.key(e),
      },
      this.canvas,
    );
    this.node = h(
      "figure",
      { class: "chart heatmap" },
      h("figcaption", null, this.title, this.legend()),
      this.holder,
      this.reading,
      h("div", { class: "sr" }, this.table),
    );
    this.unsubscribe = onTheme(() => (this.dirty = true));
    this.observer = new ResizeObserver(() => (this.dirty = true));
    this.observer.observe(this.holder);
    this.clear("rate");
  }

  close(): void {
    this.unsubscribe();
    this.observer.disconnect();
  }

  private legend(): HTMLElement {
    const steps = [0, 0.25, 0.5, 0.75, 1].map((part) => {
      const box = h("i");
      box.style.background = `color-mix(in srgb, var(--heat-high) ${part * 100}%, var(--heat-low))`;
      return box;
    });
    return h("span", { class: "ramp", "aria-hidden": "true" }, words.few, ...steps, words.many);
  }

  clear(sort: string): void {
    this.columns = [];
    this.pushed = 0;
    this.dirty = true;
    this.unit =
      sort === "rate" ? "bps" : sort === "queue" ? "bytes" : sort === "wait" ? "ns" : "count";
    say(this.title, words.heatOf[sort as keyof typeof words.heatOf] ?? words.heatOf.rate);
  }

  push(heat: { bins: number[] }, t: number): void {
    this.columns.push({ t, bins: heat.bins });
    if (this.columns.length > KEEP) this.columns.shift();
    this.dirty = true;
    if (this.pushed++ % TOLD_EVERY === 0) this.fillTable();
  }

  /** The first and the last bin to show. Bin 0, for the value zero, always has a row. */
  private span(): [number, number] {
    let [low, high] = [Infinity, 1];
    for (const { bins } of this.columns) {
      for (let i = 1; i < bins.length; i++) {
        if (!bins[i]) continue;
        low = Math.min(low, i);
        high = Math.max(high, i);
      }
    }
    if (!Number.isFinite(low)) return [1, 8];
    return [Math.max(1, low - 1), Math.max(high + 1, low + 5)];
  }

  /** The width of a column: wide while there are few, so that the map soon fills. */
  private side(width: number): number {
    const fits = Math.floor((width - LEFT) / Math.max(1, this.columns.length));
    return Math.min(MOST_CELL, Math.max(LEAST_CELL, fits));
  }

  frame(): void {
    if (!this.dirty) return;
    this.dirty = false;
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const width = this.holder.clientWidth;
    const height = this.holder.clientHeight;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const ctx = canvas.getContext("2d")!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    const [low, high] = this.span();
    const rows = high - low + 2;
    const cell = (height - BOTTOM) / rows;
    const side = this.side(width);
    const shown = this.columns.slice(-Math.floor((width - LEFT) / side));
    let most = 1;
    for (const { bins } of shown)
      for (let i = 1; i < bins.length; i++) most = Math.max(most, bins[i]!);
    const scale = Math.log1p(most);
    const ramp = heatColours();
    shown.forEach(({ bins }, i) => {
      const x = width - (shown.length - i) * side;
      for (let bin = low - 1; bin <= high; bin++) {
        const n = bins[bin < low ? 0 : bin] ?? 0;
        if (!n) continue;
        const row = bin < low ? 0 : bin - low + 1;
        const part = Math.min(1, Math.log1p(n) / scale);
        ctx.fillStyle = ramp[Math.round(part * (ramp.length - 1))]!;
        ctx.fillRect(x, height - BOTTOM - (row + 1) * cell, side - 0.5, cell - 0.5);
      }
    });
    ctx.fillStyle = colour("muted");
    ctx.font = '11.5px system-ui,"DejaVu Sans",sans-serif';
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(16 / cell));
    ctx.fillText("0", LEFT - 6, height - BOTTOM - cell / 2);
    for (let bin = low; bin <= high; bin += every) {
      const y = height - BOTTOM - (bin - low + 1) * cell;
      if (y < 6 || y > height - BOTTOM - cell - 8) continue;
      ctx.fillText(text(2 ** (bin - 1), this.unit), LEFT - 6, y);
    }
    ctx.textBaseline = "alphabetic";
    ctx.textAlign = "right";
    const last = this.columns[this.columns.length - 1];
    if (last) ctx.fillText(clock(last.t), width, height - 3);
    const first = shown[0];
    if (first && shown.length * side > 150) {
      ctx.textAlign = "left";
      ctx.fillText(clock(first.t), width - shown.length * side, height - 3);
    }
    if (this.at) this.mark(ctx, width, height, cell, low);
  }

  private mark(
    ctx: CanvasRenderingContext2D,
    width: number,
    height: number,
    cell: number,
    low: number,
  ): void {
    const [back, row] = this.at!;
    const column = this.columns[this.columns.length - 1 - back];
    if (!column) return;
    ctx.strokeStyle = colour("ink");
    const side = this.side(width);
    ctx.strokeRect(width - (back + 1) * side, height - BOTTOM - (row + 1) * cell, side, cell);
    const bin = row === 0 ? 0 : row + low - 1;
    const n = column.bins[bin] ?? 0;
    const range =
      bin === 0
        ? "0"
        : `${text(2 ** (bin - 1), this.unit)} ${words.to} ${text(2 ** bin, this.unit)}`;
    say(this.reading, `${clock(column.t)}: ${words.instancesWith(count(n), range)}`);
  }

  private point(e: PointerEvent): void {
    const box = this.holder.getBoundingClientRect();
    const [low, high] = this.span();
    const cell = (box.height - BOTTOM) / (high - low + 2);
    const back = Math.floor((box.right - e.clientX) / this.side(box.width));
    const row = Math.floor((box.bottom - BOTTOM - e.clientY) / cell);
    this.at = row >= 0 && back >= 0 ? [back, row] : undefined;
    this.dirty = true;
  }

  private key(e: KeyboardEvent): void {
    const step = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
      e.key
    ];
    if (!step) return;
    e.preventDefault();
    const [back, row] = this.at ?? [0, 0];
    this.at = [Math.max(0, back + step[0]!), Math.max(0, row + step[1]!)];
    this.dirty = true;
  }

  private leave(): void {
    this.at = undefined;
    this.dirty = true;
    say(this.reading, "");
  }

  /** The newest column, for screen readers. */
  private fillTable(): void {
    const last = this.columns[this.columns.length - 1];
    if (!last) return;
    const body = h("tbody");
    last.bins.forEach((n, bin) => {
      if (!n) return;
      body.append(
        h(
          "tr",
          null,
          h(
            "th",
            { scope: "row" },
            bin === 0 ? "0" : `${words.from} ${text(2 ** (bin - 1), this.unit)}`,
          ),
          h("td", null, count(n)),
        ),
      );
    });
    put(
      this.table,
      h("caption", null, words.heatTable),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, words.value),
          h("th", { scope: "col" }, words.instances),
        ),
      ),
      body,
    );
  }
}

/** 33 colours from the lowest to the highest; their lightness alone orders them. */
function heatColours(): string[] {
  const [low, high] = [parts(colour("heat-low")), parts(colour("heat-high"))];
  return Array.from({ length: 33 }, (_, i) => {
    const mixed = low.map((from, c) => Math.round(from + ((high[c]! - from) * i) / 32));
    return `rgb(${mixed.join(",")})`;
  });
}

function parts(hex: string): number[] {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

/** Maximum number of columns. */
const KEEP = 600;
/** The table gets the newest column once in this number of columns. */
const TOLD_EVERY = 5;
/** The least and the greatest width of a column, px. */
const LEAST_CELL = 6;
const MOST_CELL = 24;
/** The margins of the map, px. */
const LEFT = 78;
const BOTTOM = 18;
