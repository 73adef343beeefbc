// The instances of an object: search, order, the distribution over time, and a list. There may be
// ten thousand, so only the rows in or near view exist, here and in the answers of the server.

import type { App, View } from "../app";
import { flag, h, put, say, typed } from "../dom";
import { Figure } from "../figure";
import { count } from "../format";
import { HeatMap } from "../heat";
import { spark } from "../spark";
import { words } from "../text";

type Sort = "rate" | "drops" | "queue" | "wait" | "name";

export function instances(app: App, given: string): View {
  const groups = () => {
    const list: [string, string][] = [["pipes", words.allPipes]];
    if (app.things.some((t) => t.kind === "queue")) list.push(["queues", words.allQueues]);
    if (app.things.some((t) => t.kind === "sched")) list.push(["scheds", words.allSchedulers]);
    for (const t of app.things) if (t.masked) list.push([t.object, words.instancesIn(t.name)]);
    return list;
  };
  let of = given || (groups().find(([object]) => object.includes(":"))?.[0] ?? "pipes");
  let sort: Sort = "rate";
  let order: "asc" | "desc" = "desc";
  let search = "";
  let offset = 0;
  let matched = 0;
  let rows: unknown[][] = [];
  let fields: string[] = [];
  let stop = () => {};
  let timer: ReturnType<typeof setTimeout> | undefined;

  const pick = h("select", {
    id: "of",
    "aria-label": words.group,
    onchange: (e: Event) => {
      of = (e.target as HTMLSelectElement).value;
      history.replaceState(null, "", `#/instances/${encodeURIComponent(of)}`);
      top();
    },
  });
  const fill = () => {
    const list = groups();
    if (!list.some(([object]) => object === of)) list.push([of, of]);
    put(
      pick,
      ...list.map(([object, name]) =>
        h("option", { value: object, selected: object === of }, name),
      ),
    );
  };
  const box = h("input", {
    type: "search",
    placeholder: words.searchHint,
    "aria-label": words.search,
    oninput: (e: Event) => {
      search = typed(e).trim();
      soon();
    },
  });
  const summary = h("p", { class: "note", "aria-live": "polite" });
  const heat = new HeatMap();
  const heads = new Map<Sort, HTMLButtonElement>();
  const head = (name: Sort, label: string) => {
    const button = h(
      "button",
      {
        type: "button",
        class: "sort",
        onclick: () => {
          if (sort === name) order = order === "desc" ? "asc" : "desc";
          else [sort, order] = [name, name === "name" ? "asc" : "desc"];
          top();
        },
      },
      label,
    );
    heads.set(name, button);
    return h("span", { class: name, role: "columnheader" }, button);
  };
  const list = h("div", { class: "rows", role: "rowgroup" });
  const spacer = h("div", { class: "spacer" }, list);
  const headings = [
    head("name", words.name),
    head("rate", words.carried),
    h("span", { class: "trend", role: "columnheader" }, words.trend),
    head("queue", words.waiting),
    head("wait", words.delay),
    head("drops", words.drops),
  ];
  const grid = h(
    "div",
    { role: "table", "aria-label": words.instances },
    h(
      "div",
      { role: "rowgroup", class: "heads" },
      h("div", { class: "row head", role: "row" }, ...headings),
    ),
    spacer,
  );
  const scroller = h(
    "div",
    { class: "scroller", tabindex: "0", role: "region", "aria-label": words.instances },
    grid,
  );
  const table = h("div", { class: "instances" }, scroller);
  const node = h(
    "div",
    { class: "view" },
    h("h1", null, words.instances),
    h("div", { class: "pick" }, pick, box, summary),
    heat.node,
    table,
  );
  const lines = Array.from({ length: WINDOW }, () => new Line(() => of));
  list.append(...lines.map((l) => l.node));

  const subscribe = () => {
    stop();
    for (const [name, button] of heads) {
      const here = name === sort;
      flag(button, "here", here);
      button.parentElement!.setAttribute(
        "aria-sort",
        here ? (order === "asc" ? "ascending" : "descending") : "none",
      );
      button.dataset["sign"] = here ? (order === "asc" ? "▲" : "▼") : "";
    }
    const from = offset;
    stop = app.stream.subscribe(
      { what: "top", of, sort, order, n: WINDOW, offset: from, search, period_ms: 1000 },
      (part, names) => {
        rows = (part["rows"] as unknown[][]) ?? [];
        if (app.keys.size > 5000) app.keys.clear();
        for (const row of rows) {
          const object = row[names.indexOf("object")];
          if (object !== null) app.keys.set(String(object), String(row[names.indexOf("key")]));
        }
        fields = names;
        matched = (part["matched"] as number) ?? rows.length;
        const total = (part["total"] as number) ?? matched;
        say(
          summary,
          matched === total
            ? words.totalOf(count(total))
            : words.matchedOf(count(matched), count(total)),
        );
        spacer.style.height = `${Math.max(1, matched) * ROW}px`;
        if (part["heat"])
          heat.push(part["heat"] as { bins: number[]; unit: string }, app.stream.now());
        show(from);
      },
      (message) => say(summary, message),
    );
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(top, 150);
  };
  const top = () => {
    offset = 0;
    scroller.scrollTop = 0;
    heat.clear(sort === "name" ? "rate" : sort);
    subscribe();
  };
  const show = (from: number) => {
    list.style.transform = `translateY(${from * ROW}px)`;
    const at = (name: string) => fields.indexOf(name);
    const places = {
      key: at("key"),
      object: at("object"),
      rate: at("out_bps"),
      inRate: at("in_bps"),
      queue: at("queue_packets"),
      wait: at("wait_ns"),
      drops: at("drops"),
      spark: at("spark"),
    };
    let most = 1;
    for (const row of rows)
      most = Math.max(most, Number(row[places.rate] ?? row[places.inRate] ?? 0));
    lines.forEach((line, i) => line.show(rows[i], places, most));
  };
  scroller.addEventListener("scroll", () => {
    const first = Math.floor(scroller.scrollTop / ROW);
    const seen = Math.ceil(scroller.clientHeight / ROW);
    // The window moves when its edge comes into view.
    if (first >= offset && first + seen <= offset + WINDOW) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      offset = Math.max(0, first - Math.floor((WINDOW - seen) / 2));
      subscribe();
    }, 60);
  });
  fill();
  top();
  const forget = app.on("things", fill);
  return {
    node,
    title: words.instances,
    pace: () => 100,
    frame: () => heat.frame(),
    close: () => {
      stop();
      forget();
      clearTimeout(timer);
      heat.close();
    },
  };
}

/** A row of the list. */
class Line {
  readonly node: HTMLElement;
  private readonly link = h("a", { class: "key" });
  private readonly rate = new Figure("bps");
  private readonly fill = h("i");
  private readonly canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
  private readonly queue = new Figure("packets");
  private readonly wait = new Figure("ns");
  private readonly drops = new Figure("count");
  private readonly dropCell: HTMLElement;
  private object = "";

  /** `of` returns the object to which the instances in the rows belong. */
  constructor(private readonly of: () => string) {
    this.dropCell = h("span", { class: "drops", role: "cell" }, this.drops.node);
    this.node = h(
      "div",
      { class: "row", role: "row", hidden: true },
      h("span", { class: "name", role: "cell" }, this.link),
      h(
        "span",
        { class: "rate", role: "cell" },
        h("span", { class: "bar", "aria-hidden": "true" }, this.fill),
        this.rate.node,
      ),
      h("span", { class: "trend", role: "cell" }, this.canvas),
      h("span", { class: "queue", role: "cell" }, this.queue.node),
      h("span", { class: "wait", role: "cell" }, this.wait.node),
      this.dropCell,
    );
  }

  show(row: unknown[] | undefined, at: Record<string, number>, most: number): void {
    this.node.hidden = row === undefined;
    if (!row) return;
    const number = (name: string) => {
      const value = row[at[name]!];
      return typeof value === "number" ? value : NaN;
    };
    say(this.link, String(row[at["key"]!]));
    // An instance without an object cannot be watched, but it can be changed.
    const known = row[at["object"]!];
    const object = known == null ? `${this.of()}/${String(row[at["key"]!])}` : String(known);
    if (object !== this.object) {
      this.object = object;
      this.link.href = `#/${known == null ? "change" : "o"}/${encodeURIComponent(object)}`;
    }
    const out = number("rate");
    const rate = Number.isNaN(out) ? number("inRate") : out;
    this.rate.set(rate);
    this.fill.style.transform = `scaleX(${Math.min(1, (rate || 0) / most).toFixed(3)})`;
    this.queue.set(number("queue"));
    this.wait.set(number("wait"));
    const drops = number("drops");
    this.drops.set(drops);
    flag(this.dropCell, "bad", drops > 0);
    const values = row[at["spark"]!];
    spark(this.canvas, Array.isArray(values) ? (values as number[]) : [], 30);
  }
}

/** The number of rows that the server sends, and the height of a row in px. */
const WINDOW = 40;
const ROW = 36;
