// A plot as a file: its rows as CSV or Parquet, its picture as PNG or SVG.

import { h } from "./dom";
import { clock, step, text, tick, type Unit } from "./format";
import { ySplits, type Curve, type Marker } from "./chart";
import { parquet, type Column } from "./parquet";
import { colour } from "./theme";
import { words } from "./text";

/** What a plot shows at one moment. */
export interface Sheet {
  title: string;
  /** The object, for the title and the name of the file. */
  subject: string;
  unit: Unit;
  columns: Column[];
  curves: Curve[];
  canvas: () => HTMLCanvasElement | undefined;
  range: [number, number];
  /** The upper end of the y axis. */
  top: number;
  markers: Marker[];
  /** The configured value that is drawn as a level. */
  level: number | undefined;
}

type Form = "csv" | "parquet" | "png" | "svg";

export function exportMenu(sheet: () => Sheet): HTMLElement {
  const button = (form: Form, name: string) =>
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          menu.open = false;
          void save(sheet(), form);
        },
      },
      name,
    );
  const menu = h(
    "details",
    { class: "menu" },
    h("summary", { class: "small" }, words.save),
    h(
      "div",
      null,
      button("csv", "CSV"),
      button("parquet", "Parquet"),
      button("png", "PNG"),
      button("svg", "SVG"),
    ),
  );
  menu.addEventListener("focusout", (e) => {
    if (!menu.contains(e.relatedTarget as Node | null)) menu.open = false;
  });
  menu.addEventListener("keydown", (e) => {
    if (e.key === "Escape") menu.open = false;
  });
  return menu;
}

async function save(sheet: Sheet, form: Form): Promise<void> {
  const blob = await content(sheet, form);
  if (!blob) return;
  const name = `${sheet.subject} ${sheet.title} ${clock(sheet.range[1]).replaceAll(":", "")}`;
  download(blob, `${name.replace(/[^\w.+-]+/g, "-").toLowerCase()}.${form}`);
}

/** Gives the user a file. */
export function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function content(sheet: Sheet, form: Form): Promise<Blob | null> | Blob {
  switch (form) {
    case "csv":
      return new Blob([csv(sheet.columns)], { type: "text/csv" });
    case "parquet":
      return new Blob([parquet(sheet.columns) as BlobPart], {
        type: "application/vnd.apache.parquet",
      });
    case "svg":
      return new Blob([svg(sheet)], { type: "image/svg+xml" });
    case "png":
      return png(sheet);
  }
}

/** Rows of comma-separated values; an unknown value is empty. */
export function csv(columns: Column[]): string {
  const quoted = (name: string) => (/[",\n]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name);
  const lines = [columns.map((c) => quoted(c.name)).join(",")];
  for (let i = 0; i < (columns[0]?.values.length ?? 0); i++) {
    lines.push(
      columns.map((c) => (Number.isFinite(c.values[i]!) ? String(c.values[i]) : "")).join(","),
    );
  }
  return `${lines.join("\n")}\n`;
}

/** The canvas of the plot below its title and its legend. */
async function png(sheet: Sheet): Promise<Blob | null> {
  const source = sheet.canvas();
  if (!source) return null;
  const ratio = source.width / source.clientWidth || 1;
  const head = 52 * ratio;
  const canvas = document.createElement("canvas");
  canvas.width = source.width;
  canvas.height = source.height + head;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = colour("card");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = colour("ink");
  ctx.font = `600 ${15 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  ctx.fillText(`${sheet.subject}: ${sheet.title}`, 14 * ratio, 22 * ratio);
  ctx.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
  let x = 14 * ratio;
  for (const curve of sheet.curves) {
    ctx.fillStyle = colour(curve.colour);
    ctx.fillRect(x, 37 * ratio, 14 * ratio, 4 * ratio);
    ctx.fillStyle = colour("ink");
    ctx.fillText(curve.name, x + 20 * ratio, 43 * ratio);
    x += ctx.measureText(curve.name).width + 38 * ratio;
  }
  ctx.drawImage(source, 0, head);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The plot as a picture of lines and areas, in the colours of the current theme. */
export function svg(sheet: Sheet): string {
  const [width, height] = [840, 360];
  const [left, top, right, bottom] = [64, 64, width - 16, height - 34];
  const [from, to] = sheet.range;
  const x = (t: number) => round(left + ((t - from) / (to - from)) * (right - left));
  const y = (v: number) => round(bottom - (v / sheet.top) * (bottom - top));
  const parts: string[] = [];
  const splits = ySplits(0, sheet.top);
  const chosen = step(splits[splits.length - 1] ?? 0, sheet.unit);
  for (const v of splits) {
    parts.push(`<path d="M${left} ${y(v)}H${right}" stroke="${colour("rule")}"/>`);
    parts.push(
      `<text x="${left - 6}" y="${y(v) + 4}" text-anchor="end" fill="${colour("muted")}">${tick(v, chosen)}</text>`,
    );
  }
  for (let i = 0; i <= 4; i++) {
    const t = from + ((to - from) * i) / 4;
    parts.push(
      `<text x="${x(t)}" y="${bottom + 20}" text-anchor="middle" fill="${colour("muted")}">${clock(t)}</text>`,
    );
  }
  const times = sheet.columns[0]!.values;
  let column = 1;
  const stack = sheet.curves.filter((c) => c.shape === "stack").length;
  for (const curve of sheet.curves) {
    const fill = colour(curve.colour);
    if (curve.shape === "band") {
      const [low, high] = [sheet.columns[column++]!.values, sheet.columns[column++]!.values];
      const upper = path(times, high, x, y, false);
      const lower = path([...times].reverse(), [...low].reverse(), x, y, false).replace(/^M/, "L");
      if (upper) parts.push(`<path d="${upper}${lower}Z" fill="${fill}" fill-opacity=".3"/>`);
    } else {
      let values = sheet.columns[column]!.values;
      if (curve.shape === "stack") {
        const rest = sheet.columns.slice(column, 1 + stack);
        values = values.map((_, i) => rest.reduce((sum, c) => sum + (c.values[i] || 0), 0));
        const area = path(times, values, x, y, false);
        const end = times.length
          ? `L${x(times[times.length - 1]!)} ${bottom}L${x(times[0]!)} ${bottom}Z`
          : "";
        parts.push(`<path d="${area}${end}" fill="${fill}"/>`);
      } else {
        const dash = curve.dash ? ` stroke-dasharray="${curve.dash.join(" ")}"` : "";
        parts.push(
          `<path d="${path(times, values, x, y, true)}" fill="none" stroke="${fill}" stroke-width="1.7"${dash}/>`,
        );
      }
      column++;
    }
  }
  if (sheet.level !== undefined) {
    parts.push(
      `<path d="M${left} ${y(sheet.level)}H${right}" stroke="${colour(4)}" stroke-dasharray="5 4"/>`,
    );
  }
  for (const marker of sheet.markers.filter((m) => m.t >= from && m.t <= to)) {
    parts.push(
      `<path d="M${x(marker.t)} ${top}V${bottom}" stroke="${colour("ink")}" stroke-dasharray="3 3"><title>${escape(marker.text)}</title></path>`,
    );
  }
  let at = left;
  const legend = sheet.curves.map((curve) => {
    const item = `<rect x="${at}" y="38" width="14" height="4" fill="${colour(curve.colour)}"/><text x="${at + 20}" y="44" fill="${colour("ink")}">${escape(curve.name)}</text>`;
    at += 44 + curve.name.length * 6.6;
    return item;
  });
  const description = `${sheet.title}, ${words.upTo} ${text(sheet.top, sheet.unit)}`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" font-family="system-ui,'DejaVu Sans',sans-serif" font-size="12">` +
    `<title>${escape(`${sheet.subject}: ${sheet.title}`)}</title><desc>${escape(description)}</desc>` +
    `<rect width="${width}" height="${height}" fill="${colour("card")}"/>` +
    `<text x="16" y="22" font-size="15" font-weight="600" fill="${colour("ink")}">${escape(`${sheet.subject}: ${sheet.title}`)}</text>` +
    `<text x="${left}" y="${top - 8}" fill="${colour("muted")}" font-size="11">${chosen[1]}</text>` +
    `${legend.join("")}<clipPath id="c"><rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/></clipPath>` +
    `${parts.filter((p) => p.startsWith("<text")).join("")}<g clip-path="url(#c)">${parts.filter((p) => !p.startsWith("<text")).join("")}</g></svg>\n`
  );
}

/** The path through the known points. With `breaks`, a new part begins after each unknown point. */
function path(
  times: number[],
  values: number[],
  x: (t: number) => number,
  y: (v: number) => number,
  breaks: boolean,
): string {
  let out = "";
  let open = false;
  for (let i = 0; i < times.length; i++) {
    const value = values[i]!;
    if (!Number.isFinite(value)) {
      if (breaks) open = false;
      continue;
    }
    out += `${open ? "L" : "M"}${x(times[i]!)} ${y(value)}`;
    open = true;
  }
  return out;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function escape(text: string): string {
  return text
    .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, "\ufffd");
}
