// The rules with their counters and rates, and the path of one packet through them.

import type { App, View } from "../app";
import { flag, h, put } from "../dom";
import { Figure } from "../figure";
import { count } from "../format";
import { spark } from "../spark";
import { words } from "../text";
import { tracer } from "./trace";

interface Line {
  packets: HTMLElement;
  rate: Figure;
  packetRate: Figure;
  last: HTMLElement;
  canvas: HTMLCanvasElement;
  values: number[];
  row: HTMLElement;
}

export function rulesView(app: App): View {
  const lines = new Map<number, Line>();
  const body = h("tbody");
  const build = () => {
    const before = new Map(lines);
    lines.clear();
    put(body);
    for (const rule of app.rules.slice(0, MOST)) {
      const line: Line = {
        packets: h("td", { "data-name": words.packetsTitle }),
        rate: new Figure("bps"),
        packetRate: new Figure("pps"),
        last: h("td", { "data-name": words.lastMatch }),
        canvas: h("canvas", { class: "spark", "aria-hidden": "true" }),
        values: before.get(rule.id)?.values ?? [],
        row: h("tr"),
      };
      lines.set(rule.id, line);
      line.packets.textContent = count(rule.counters.packets);
      line.row.append(
        h("th", { scope: "row" }, String(rule.number)),
        h(
          "td",
          { class: "text" },
          h("code", null, rule.command.replace(/^add \d+ /, "")),
          !rule.enabled && h("small", null, ` ${words.disabled}`),
        ),
        h("td", null, line.rate.node),
        h("td", null, line.packetRate.node),
        h("td", { class: "trend" }, line.canvas),
        line.packets,
        line.last,
      );
      flag(line.row, "off", !rule.enabled);
      body.append(line.row);
    }
    none.hidden = app.rules.length > 0;
  };
  const none = h("p", { class: "note" }, words.noRules);
  const trace = app.can("trace") ? tracer(app) : undefined;
  const head = [
    words.number,
    words.rule1,
    words.rate,
    words.packetRate,
    words.trend,
    words.packetsTitle,
    words.lastMatch,
  ];
  const node = h(
    "div",
    { class: "view" },
    h("h1", null, words.rules),
    none,
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": words.rules },
      h(
        "table",
        { class: "numbers rules" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ...head.map((name, i) =>
              h("th", { scope: "col", class: i === 1 ? "text" : null }, name),
            ),
          ),
        ),
        body,
      ),
    ),
    trace?.node,
  );
  build();
  const stops = [
    () => trace?.close(),
    app.on("things", build),
    app.stream.subscribe({ what: "rules", period_ms: 1000 }, (part, fields) => {
      const at = Object.fromEntries(fields.map((name, i) => [name, i]));
      for (const row of (part["rows"] as (number | null)[][]) ?? []) {
        const line = lines.get(row[at["id"]!] as number);
        if (!line) continue;
        line.packets.textContent = count(row[at["packets"]!] ?? 0);
        line.rate.set(row[at["bps"]!]);
        line.packetRate.set(row[at["pps"]!]);
        line.values.push(row[at["bps"]!] ?? 0);
        if (line.values.length > 60) line.values.shift();
        spark(line.canvas, line.values, 60);
        const last = row[at["last_match_s"]!];
        const ago = last == null ? NaN : app.stream.now() - last;
        line.last.textContent = Number.isNaN(ago)
          ? words.never
          : ago < 2
            ? words.justNow
            : words.ago(`${count(ago)} s`);
      }
    }),
  ];
  return {
    node,
    title: words.rules,
    pace: () => 1000,
    close: () => stops.forEach((stop) => stop()),
  };
}

/** Maximum number of rules that are shown. */
const MOST = 1000;
