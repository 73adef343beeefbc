// A plot over time: uPlot draws it; the legend, the table and the keyboard control are here.

import uPlot from "uplot";
import { add, flag, h, put, say } from "./dom";
import { clock, digits, step, Steady, text, tick, type Unit } from "./format";
import type { Slice } from "./series";
import { colour, onTheme } from "./theme";
import { exportMenu, type Sheet } from "./export";
import { words } from "./text";
import type { Timeline } from "./timeline";

/** How a curve is drawn. `band` reaches from the least to the most of its channel. */
export type Shape = "line" | "band" | "stack";

export interface Curve {
  name: string;
  channel: number;
  shape: Shape;
  /** The number of its colour in the palette. */
  colour: number;
  /** Dashes tell curves apart without colour. */
  dash?: number[];
}

/** A moment at which something was changed. */
export interface Marker {
  t: number;
  text: string;
}

export interface ChartOptions {
  title: string;
  /** What the plot shows, in a sentence, for screen readers. */
  description: string;
  unit: Unit;
  curves: Curve[];
  /** The rows to draw. */
  view: (from: number, to: number, pixels: number) => Slice | undefined;
  markers?: () => Marker[];
  /** A configured value that is drawn as a level, such as the rate of a link. */
  level?: () => number | undefined;
  levelName?: string;
  /** The name of the object, for files. */
  file: () => string;
  height?: number;
}

type Row = (number | null)[];

/** One plot in a figure, with its legend, its table and its buttons. */
export class Chart {
  readonly node: HTMLElement;
  private readonly holder: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly values: { value: HTMLElement; unit: HTMLElement; steady: Steady }[] = [];
  private readonly table: HTMLTableElement;
  private readonly scroll: HTMLElement;
  private readonly note: HTMLElement;
  private plot: uPlot | undefined;
  private rows: Slice | undefined;
  /** The upper end of the y axis that the user has fixed. */
  private fixed: number | undefined;
  /** The upper end of the y axis that fits the values. */
  private top = 0;
  private asTable = false;
  private tableAt = 0;
  private width = 0;
  private readonly observer: ResizeObserver;
  private readonly sight: IntersectionObserver;
  /** Whether the plot is on or near the screen; otherwise, new rows do not redraw it. */
  private seen = false;
  private readonly unsubscribe: () => void;
  private pan: { x: number; from: number; to: number } | undefined;

  constructor(
    readonly options: ChartOptions,
    readonly timeline: Timeline,
  ) {
    this.legend = h("ul", { class: "legend" });
    for (const curve of options.curves)
      this.addLegend(curve.name, curve.shape, curve.colour, curve.dash);
    if (options.level) {
      const key = h("i", { class: "key level", "aria-hidden": "true" });
      key.style.color = "var(--c4)";
      this.legend.append(h("li", null, key, options.levelName ?? words.configured));
    }
    this.holder = h("div", {
      class: "canvas",
      tabindex: "0",
      role: "application",
      "aria-roledescription": words.plot,
      "aria-label": `${options.title}. ${options.description} ${words.plotKeys}`,
      onkeydown: (e: KeyboardEvent) => this.key(e),
      onblur: () => this.moveCursor(undefined),
    });
    this.table = h("table", { class: "numbers" });
    this.scroll = h(
      "div",
      {
        class: "scroll sr",
        tabindex: "-1",
        role: "region",
        "aria-label": `${options.title}: ${words.table}`,
      },
      this.table,
    );
    this.note = h("p", { class: "sr", "aria-live": "polite" });
    this.node = h(
      "figure",
      { class: "chart" },
      h(
        "figcaption",
        null,
        h("h2", null, options.title),
        h(
          "div",
          { class: "tools" },
          this.yTools(),
          this.tableButton(),
          exportMenu(() => this.sheet()),
        ),
      ),
      this.legend,
      this.holder,
      this.scroll,
      this.note,
    );
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.holder);
    this.sight = new IntersectionObserver(
      ([entry]) => {
        this.seen = entry?.isIntersecting ?? true;
        if (this.seen) this.draw(true);
      },
      { rootMargin: "200px" },
    );
    this.sight.observe(this.node);
    this.unsubscribe = onTheme(() => this.plot?.redraw(false, true));
  }

  destroy(): void {
    this.observer.disconnect();
    this.sight.disconnect();
    this.unsubscribe();
    this.plot?.destroy();
  }

  private addLegend(name: string, shape: Shape, number: number, dash?: number[]): void {
    const value = h("b");
    const unit = h("small");
    const key = h("i", { class: `key ${shape}${dash ? " dashed" : ""}`, "aria-hidden": "true" });
    key.style.color = `var(--c${number})`;
    this.legend.append(h("li", null, key, name, h("span", { class: "num" }, value, unit)));
    this.values.push({ value, unit, steady: new Steady(this.options.unit) });
  }

  private yTools(): HTMLElement {
    const box = h("input", {
      class: "ymax",
      type: "text",
      size: "9",
      "aria-label": words.yMaximum,
      hidden: true,
    });
    const button = h(
      "button",
      { type: "button", class: "small", "aria-pressed": "false", title: words.yFixedHelp },
      words.yFixed,
    );
    const freeze = (on: boolean) => {
      this.fixed = on ? this.top : undefined;
      box.hidden = !on;
      box.value = on ? text(this.top, this.options.unit) : "";
      button.setAttribute("aria-pressed", String(on));
      this.draw(true);
    };
    button.addEventListener("click", () => freeze(this.fixed === undefined));
    box.addEventListener("change", () => {
      const value = parse(box.value, this.options.unit);
      flag(box, "wrong", value === undefined);
      if (value === undefined) return;
      this.fixed = value;
      this.draw(true);
    });
    return h("span", { class: "ytools" }, box, button);
  }

  private tableButton(): HTMLElement {
    const button = h(
      "button",
      { type: "button", class: "small", "aria-pressed": "false" },
      words.table,
    );
    button.addEventListener("click", () => {
      this.asTable = !this.asTable;
      button.setAttribute("aria-pressed", String(this.asTable));
      flag(this.scroll, "sr", !this.asTable);
      this.scroll.tabIndex = this.asTable ? 0 : -1;
      this.holder.hidden = this.asTable;
      this.fillTable();
    });
    return button;
  }

  /** Reads the rows of the range and draws them. */
  draw(force = false): void {
    if (!this.node.isConnected || (!force && (this.width === 0 || !this.seen))) return;
    const [from, to] = this.timeline.range();
    this.rows = this.options.view(from, to, Math.max(100, this.width));
    if (!this.plot) this.build();
    const plot = this.plot;
    if (!plot) return;
    const data = this.data();
    plot.batch(() => {
      plot.setData(data as uPlot.AlignedData, false);
      plot.setScale("x", { min: from, max: to });
    });
    this.placeCursor();
    this.showValues();
    if (performance.now() - this.tableAt > TABLE_PERIOD) this.fillTable();
  }

  private data(): Row[] {
    const rows = this.rows;
    const columns: Row[] = [rows ? Array.from(rows.t) : []];
    const stack: Row[] = [];
    for (const curve of this.options.curves) {
      if (curve.shape === "band") {
        columns.push(nanToNull(rows?.low[curve.channel]), nanToNull(rows?.high[curve.channel]));
      } else if (curve.shape === "stack") {
        stack.push(nanToNull(rows?.mean[curve.channel]));
        columns.push(stack[stack.length - 1]!);
      } else columns.push(nanToNull(rows?.mean[curve.channel]));
    }
    // The upper edge of an area of a stack is its own value plus the values of all areas after it.
    for (let i = stack.length - 2; i >= 0; i--) {
      const rest = stack[i + 1]!;
      const own = stack[i]!;
      for (let j = 0; j < own.length; j++) if (own[j] !== null) own[j] = own[j]! + (rest[j] ?? 0);
    }
    return columns;
  }

  private build(): void {
    if (this.width < 40) return;
    const unit = this.options.unit;
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    const stepped = uPlot.paths.stepped!({ align: -1 });
    for (const curve of this.options.curves) {
      const stroke = () => colour(curve.colour);
      const points = { show: false };
      if (curve.shape === "band") {
        const edge = { stroke: () => colour(curve.colour, 0.55), width: 0.5, points };
        series.push({ ...edge }, { ...edge });
        bands.push({
          series: [series.length - 1, series.length - 2],
          fill: () => colour(curve.colour, 0.28),
        });
      } else if (curve.shape === "stack") {
        series.push({ stroke, fill: stroke, width: 0.5, points, paths: stepped });
      } else {
        series.push({ stroke, width: 1.7, points, ...(curve.dash ? { dash: curve.dash } : {}) });
      }
    }
    const font = '11.5px system-ui,"Segoe UI","Helvetica Neue",Arial,"DejaVu Sans",sans-serif';
    const axis = {
      stroke: () => colour("muted"),
      font,
      ticks: { stroke: () => colour("rule"), width: 1, size: 5 },
    };
    const options: uPlot.Options = {
      width: this.width,
      height: this.options.height ?? HEIGHT,
      padding: [22, 14, 0, 0],
      legend: { show: false },
      cursor: {
        x: true,
        y: false,
        points: {
          size: 7,
          fill: (u, i) => strokeOf(u, i),
          stroke: () => colour("card"),
          width: 1.5,
        },
        drag: { x: true, y: false, setScale: false, dist: 6 },
        bind: {
          dblclick: () => () => {
            this.timeline.follow();
            return null;
          },
        },
      },
      scales: {
        x: { time: false, auto: false },
        y: { range: (_u, _low, high) => this.yRange(high) },
      },
      axes: [
        {
          ...axis,
          space: 84,
          size: 30,
          grid: { show: false },
          incrs: INCREMENTS,
          // A label at the right edge would be cut off. When the width changes, `bbox` has the new
          // width before the elements do.
          values: (u, splits, _a, _space, increment) =>
            splits.map((v) =>
              u.valToPos(v, "x") > u.bbox.width / devicePixelRatio - EDGE
                ? ""
                : clock(v, increment < 0.1 ? 2 : increment < 1 ? 1 : 0),
            ),
        },
        {
          ...axis,
          size: 52,
          space: 34,
          gap: 4,
          grid: { stroke: () => colour("rule"), width: 1 },
          splits: (_u, _i, low, high) => ySplits(low, high),
          values: (_u, splits) => {
            const chosen = step(Math.max(...splits.map((v) => v ?? 0)), unit);
            return splits.map((v) => tick(v, chosen));
          },
        },
      ],
      series,
      bands,
      hooks: {
        draw: [(u) => this.overlay(u)],
        setCursor: [(u) => this.onCursor(u)],
        setSelect: [(u) => this.onSelect(u)],
      },
    };
    this.plot = new uPlot(options, this.data() as uPlot.AlignedData, this.holder);
    const over = this.plot.over;
    over.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    over.addEventListener("pointerdown", (e) => this.panFrom(e), { capture: true });
    over.addEventListener("pointermove", (e) => this.panTo(e));
    over.addEventListener("pointerup", () => (this.pan = undefined));
    over.addEventListener("pointercancel", () => (this.pan = undefined));
  }

  private resize(): void {
    const width = Math.floor(this.holder.clientWidth);
    if (width === this.width || width === 0) return;
    this.width = width;
    this.plot?.setSize({ width, height: this.options.height ?? HEIGHT });
    this.draw(true);
  }

  private yRange(high: number | null): [number, number] {
    const level = this.options.level?.() ?? 0;
    const most = Math.max(high ?? 0, level);
    const fit = nice(most * 1.06) || emptyTop(this.options.unit);
    // The axis shrinks only if the values need less than half of it, so that it seldom moves.
    if (fit > this.top || fit < this.top * 0.5) this.top = fit;
    return [0, this.fixed ?? this.top];
  }

  /** The configured level, the markers of changes and the unit of the y axis. */
  private overlay(u: uPlot): void {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = `${11.5 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.fillStyle = colour("muted");
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    const unit = step(u.scales["y"]!.max ?? 0, this.options.unit)[1];
    if (unit) ctx.fillText(unit, 8 * ratio, 1);
    const level = this.options.level?.();
    if (level !== undefined && Number.isFinite(level)) {
      const y = u.valToPos(level, "y", true);
      if (y >= top && y <= top + height) {
        ctx.strokeStyle = colour(4);
        ctx.lineWidth = 1.4 * ratio;
        ctx.setLineDash([5 * ratio, 4 * ratio]);
        ctx.beginPath();
        ctx.moveTo(left, y);
        ctx.lineTo(left + width, y);
        ctx.stroke();
      }
    }
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.strokeStyle = colour("ink");
    ctx.lineWidth = ratio;
    for (const marker of this.options.markers?.() ?? []) {
      const x = u.valToPos(marker.t, "x", true);
      if (x < left || x > left + width) continue;
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
      ctx.fillStyle = colour("ink");
      ctx.beginPath();
      ctx.moveTo(x - 5 * ratio, top - 1);
      ctx.lineTo(x + 5 * ratio, top - 1);
      ctx.lineTo(x, top + 7 * ratio);
      ctx.fill();
    }
    ctx.restore();
  }

  // The cursor: a moment that all plots share.

  private onCursor(u: uPlot): void {
    // Only the plot under the pointer sets the moment; the other plots follow it.
    if (!this.holder.matches(":hover") || this.pan) return;
    const left = u.cursor.left ?? -1;
    this.timeline.cursor = left < 0 ? undefined : u.posToVal(left, "x");
    this.showValues();
  }

  private placeCursor(): void {
    const plot = this.plot;
    if (!plot || this.holder.matches(":hover")) return;
    const t = this.timeline.cursor;
    const left = t === undefined ? -10 : plot.valToPos(t, "x");
    plot.setCursor({ left, top: left < 0 ? -10 : 10 }, false);
  }

  private moveCursor(t: number | undefined): void {
    this.timeline.cursor = t;
    this.draw(true);
  }

  /** Shows the values at the cursor in the legend; without a cursor, the newest values. */
  private showValues(): void {
    const index = this.index(this.timeline.cursor);
    const { curves, unit } = this.options;
    for (const [i, curve] of curves.entries()) {
      const place = this.values[i]!;
      const mean = this.rows?.mean[curve.channel]?.[index] ?? NaN;
      if (curve.shape === "band") {
        const low = this.rows?.low[curve.channel]?.[index] ?? NaN;
        const high = this.rows?.high[curve.channel]?.[index] ?? NaN;
        const [most, name] = place.steady.split(high);
        const chosen = step(high, unit);
        say(place.value, Number.isNaN(high) ? "–" : `${digits(low, unit, chosen)}–${most}`);
        say(place.unit, name);
      } else {
        const [number, name] = place.steady.split(mean);
        say(place.value, number);
        say(place.unit, name);
      }
    }
  }

  /** The index of the last row that is not later than `t`; without `t`, of the newest row. */
  private index(t: number | undefined): number {
    const times = this.rows?.t;
    if (!times?.length) return -1;
    if (t === undefined) return times.length - 1;
    let low = 0;
    let high = times.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (times[mid]! <= t) low = mid + 1;
      else high = mid;
    }
    return low - 1;
  }

  // Input.

  private onSelect(u: uPlot): void {
    const { left, width } = u.select;
    if (width > 6) this.timeline.show(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    if (width > 0) u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private wheel(e: WheelEvent): void {
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
      e.preventDefault();
      this.timeline.pan(Math.sign(e.deltaX || e.deltaY) * 0.1);
    } else if (e.ctrlKey) {
      e.preventDefault();
      this.timeline.zoom(e.deltaY > 0 ? 1.25 : 0.8, this.timeline.cursor);
    }
  }

  private panFrom(e: PointerEvent): void {
    if (!e.shiftKey && e.pointerType !== "touch") return;
    const [from, to] = this.timeline.range();
    this.pan = { x: e.clientX, from, to };
    if (e.shiftKey) e.stopPropagation();
  }

  private panTo(e: PointerEvent): void {
    if (!this.pan) return;
    const { x, from, to } = this.pan;
    const moved = ((e.clientX - x) / this.width) * (to - from);
    this.timeline.show(from - moved, to - moved);
  }

  private key(e: KeyboardEvent): void {
    if (e.target !== this.holder) return;
    const [from, to] = this.timeline.range();
    const t = this.timeline.cursor ?? to;
    const part = e.shiftKey ? 0.1 : 0.01;
    switch (e.key) {
      case "ArrowLeft":
        this.moveCursor(Math.max(from, t - part * (to - from)));
        break;
      case "ArrowRight":
        this.moveCursor(Math.min(to, t + part * (to - from)));
        break;
      case "PageUp":
        this.timeline.pan(-0.5);
        break;
      case "PageDown":
        this.timeline.pan(0.5);
        break;
      case "+":
        this.timeline.zoom(0.5, this.timeline.cursor);
        break;
      case "-":
        this.timeline.zoom(2, this.timeline.cursor);
        break;
      case "Escape":
        this.timeline.cursor = undefined;
        this.timeline.follow();
        break;
      default:
        return;
    }
    e.preventDefault();
    this.sayCursor();
  }

  /** Tells screen readers the time, the values and the changes at the cursor. */
  private sayCursor(): void {
    const t = this.timeline.cursor;
    if (t === undefined) return;
    const index = this.index(t);
    const parts = this.options.curves.map((curve) => {
      const value = this.rows?.mean[curve.channel]?.[index] ?? NaN;
      return `${curve.name} ${text(value, this.options.unit)}`;
    });
    const near = (this.options.markers?.() ?? []).filter(
      (m) => Math.abs(m.t - t) < this.timeline.span / 100,
    );
    say(this.note, [clock(t, 1), ...parts, ...near.map((m) => m.text)].join(", "));
  }

  /** The rows on display and all else that a file of the plot needs. */
  private sheet(): Sheet {
    const rows = this.rows;
    const columns = [{ name: "time_s", values: rows ? Array.from(rows.t) : [] }];
    for (const curve of this.options.curves) {
      const name = `${curve.name} (${BASE[this.options.unit]})`;
      const of = (column: Float64Array | undefined) => Array.from(column ?? []);
      if (curve.shape === "band") {
        columns.push({ name: `${name}, least`, values: of(rows?.low[curve.channel]) });
        columns.push({ name: `${name}, most`, values: of(rows?.high[curve.channel]) });
      } else columns.push({ name, values: of(rows?.mean[curve.channel]) });
    }
    return {
      title: this.options.title,
      subject: this.options.file(),
      unit: this.options.unit,
      columns,
      curves: this.options.curves,
      canvas: () => this.plot?.ctx.canvas,
      range: this.timeline.range(),
      top: this.fixed ?? this.top,
      markers: this.options.markers?.() ?? [],
      level: this.options.level?.(),
    };
  }

  private fillTable(): void {
    this.tableAt = performance.now();
    const rows = this.rows;
    const head = h("tr", null, h("th", { scope: "col" }, words.time));
    for (const curve of this.options.curves) head.append(h("th", { scope: "col" }, curve.name));
    const body = h("tbody");
    const n = rows?.t.length ?? 0;
    const every = Math.max(1, Math.floor(n / TABLE_ROWS));
    for (let i = n - 1; i >= 0 && rows; i -= every) {
      const row = h("tr", null, h("th", { scope: "row" }, clock(rows.t[i]!, 1)));
      for (const { channel, shape } of this.options.curves) {
        const low = rows.low[channel]?.[i] ?? NaN;
        const high = rows.high[channel]?.[i] ?? NaN;
        const mean = rows.mean[channel]?.[i] ?? NaN;
        const value =
          shape === "band"
            ? `${text(low, this.options.unit)} ${words.to} ${text(high, this.options.unit)}`
            : text(mean, this.options.unit);
        row.append(h("td", null, Number.isNaN(mean) ? words.unknown : value));
      }
      body.append(row);
    }
    put(this.table, h("caption", { class: "sr" }, this.options.title), h("thead", null, head));
    add(this.table, [body]);
  }
}

function strokeOf(u: uPlot, series: number): string {
  const stroke = u.series[series]?.stroke;
  return typeof stroke === "function" ? String(stroke(u, series)) : colour("muted");
}

function nanToNull(column: Float64Array | undefined): Row {
  if (!column) return [];
  const out: Row = new Array(column.length);
  for (let i = 0; i < column.length; i++) {
    const v = column[i]!;
    out[i] = v === v ? v : null;
  }
  return out;
}

/** The least round number that is not below a value. */
export function nice(value: number): number {
  if (!(value > 0)) return 0;
  const power = 10 ** Math.floor(Math.log10(value));
  const part = value / power;
  const round = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((x) => x >= part * (1 - 1e-9))!;
  return round * power;
}

/** The marks of a y axis: multiples of 1, 2, 2.5 or 5 times a power of ten. */
export function ySplits(low: number, high: number): number[] {
  const least = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(least));
  const increment = [1, 2, 2.5, 5, 10].map((x) => x * power).find((x) => x >= least * 0.999)!;
  const out: number[] = [];
  for (let i = Math.ceil(low / increment); i * increment <= high * (1 + 1e-9); i++)
    out.push(i * increment);
  return out;
}

/** The upper end of an axis on which no value is above 0. */
function emptyTop(unit: Unit): number {
  return unit === "bps"
    ? 1e3
    : unit === "ns"
      ? 1e5
      : unit === "bytes"
        ? 1e3
        : unit === "fraction"
          ? 0.01
          : 5;
}

/** Reads a value such as `10 Mbit/s`, `5M` or `20 ms`. */
export function parse(input: string, unit: Unit): number | undefined {
  const match = /^\s*([\d.]+)\s*([a-zµ%]*)/i.exec(input);
  const number = Number(match?.[1] ?? NaN);
  if (!match || !(number > 0)) return undefined;
  const name = match[2] ?? "";
  if (unit === "ns")
    return number * ({ s: 1e9, ms: 1e6, us: 1e3, µs: 1e3, ns: 1 }[name] ?? NaN) || undefined;
  if (unit === "fraction") return number / 100;
  const prefix = { k: 1e3, m: 1e6, g: 1e9 }[name.charAt(0).toLowerCase()] ?? 1;
  return number * prefix;
}

/** Half the width of a time label, less the padding at the right of the plot, px. */
const EDGE = 18;
const HEIGHT = 196;
const TABLE_ROWS = 30;
/** New rows change the table at most once in this time, ms, so that it can be read. */
const TABLE_PERIOD = 5000;
/** The units of exported values. */
const BASE: Record<Unit, string> = {
  bps: "bit/s",
  ns: "ns",
  bytes: "B",
  count: "1",
  packets: "packets",
  pps: "1/s",
  fraction: "1",
};
/** The possible distances of time labels, s. */
const INCREMENTS = [
  0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200,
];
