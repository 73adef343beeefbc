// The overview: the objects through which packets pass, with their present rates, queues and drops;
// the health of the daemon; and the sums over time.

import type { Rule, Thing } from "../api";
import type { App, Health, View } from "../app";
import { Chart, type Curve, type Shape } from "../chart";
import { flag, h, put } from "../dom";
import { Figure, Tile } from "../figure";
import { Flow, type Edge } from "../flow";
import { clock, count, elapsed, text, type Unit } from "../format";
import { Series } from "../series";
import { Tail } from "../spark";
import { words } from "../text";
import { still } from "../theme";
import { toolbar } from "../toolbar";
import { inWords } from "../spec";

/** The newest values of an object. */
interface Row {
  in_bps: number;
  out_bps: number;
  queue_packets: number;
  drops: number;
  wait_p99_ns: number | null;
  late_p99_ns: number | null;
}

export function overview(app: App): View {
  const rows = new Map<string, Row>();
  const rates = new Map<number, { bps: number; pps: number }>();
  const sums = new Series(SUMS + 3 * CURVES, 1200);
  const health = h("section", { class: "health card", "aria-label": words.health });
  const tiles = {
    carried: new Tile(words.carried, "bps"),
    queue: new Tile(words.waiting, "packets"),
    drops: new Tile(words.dropsPerSecond, "pps"),
    late: new Tile(words.lateness99, "ns"),
  };
  const stage = h("div", { class: "stage" });
  const bar = toolbar(app, () => app.things.map((thing) => thing.object));
  // One curve for each link or direction if there are few, else the sums.
  const plots = h("div", { class: "plots three" });
  let charts: Chart[] = [];
  let mains: Thing[] = [];
  const build = () => {
    const links = app.things.filter((t) => t.kind === "link");
    const few = links.length ? links : app.things.filter((t) => t.kind === "lane");
    const chosen = few.length <= CURVES ? few : [];
    if (charts.length && chosen.map((t) => t.object).join() === mains.map((t) => t.object).join())
      return;
    mains = chosen;
    charts.forEach((c) => c.destroy());
    const each = (quantity: number, shape: Shape, sum: Curve[]): Curve[] =>
      mains.length
        ? mains.map((t, i) => ({
            name: nameOf(t),
            channel: SUMS + 3 * i + quantity,
            shape,
            colour: HUES[i]!,
            ...(DASHES[i] && shape === "line" ? { dash: DASHES[i] } : {}),
          }))
        : sum;
    const chart = (title: string, description: string, unit: Unit, curves: Curve[]) =>
      new Chart(
        {
          title,
          description,
          unit,
          curves,
          view: (from, to, px) => sums.view(from, to, px),
          markers: () => app.markers(),
          file: () => app.page.name,
        },
        app.timeline,
      );
    charts = [
      chart(
        words.throughput,
        words.throughputAll,
        "bps",
        each(0, "line", [
          { name: words.offered, channel: 0, shape: "line", colour: 1, dash: [5, 4] },
          { name: words.carriedLower, channel: 1, shape: "line", colour: 0 },
        ]),
      ),
      chart(
        words.waitingTitle,
        words.waitingAll,
        "packets",
        each(1, "line", [{ name: words.waitingShort, channel: 2, shape: "line", colour: 2 }]),
      ),
      chart(
        words.drops,
        words.dropsAll,
        "pps",
        each(2, "stack", [{ name: words.dropped, channel: 3, shape: "stack", colour: 1 }]),
      ),
    ];
    put(plots, ...charts.map((c) => c.node));
    dirty = true;
  };
  const changes = h("div");
  const node = h(
    "div",
    { class: "view" },
    h("h1", { class: "sr" }, words.overview),
    health,
    h(
      "dl",
      { class: "tiles" },
      tiles.carried.node,
      tiles.queue.node,
      tiles.drops.node,
      tiles.late.node,
    ),
    stage,
    bar.node,
    plots,
    changes,
  );
  const map = new Network(app, stage, rows, rates);

  let dirty = true;
  let period = 0.5;
  const stops = [
    app.stream.subscribe({ what: "overview", period_ms: PERIOD }, (part, fields) => {
      const now = app.stream.now();
      const names = fields.slice(1);
      for (const row of (part["rows"] as unknown[][]) ?? []) {
        const value = Object.fromEntries(
          names.map((name, i) => [name, row[i + 1]]),
        ) as unknown as Row;
        rows.set(String(row[0]), value);
      }
      const totals = part["totals"] as Record<string, number>;
      const last = sums.last();
      if (now - last > GAP) sums.gap(last + 0.001);
      else if (now > last) period = now - last;
      const drops = (totals["drops"] ?? 0) / (PERIOD / 1000);
      const values = new Float64Array(SUMS + 3 * CURVES).fill(NaN);
      values.set([
        totals["in_bps"] ?? 0,
        totals["out_bps"] ?? 0,
        totals["queue_packets"] ?? 0,
        drops,
      ]);
      mains.forEach((thing, i) => {
        const row = rows.get(thing.object);
        if (row)
          values.set([row.out_bps, row.queue_packets, row.drops / (PERIOD / 1000)], SUMS + 3 * i);
      });
      sums.push(now, values);
      tiles.carried.set(totals["out_bps"], words.offeredOf(text(totals["in_bps"] ?? 0, "bps")));
      tiles.queue.set(totals["queue_packets"]);
      tiles.drops.set(drops, "", drops > 0);
      if (part["health"]) app.setHealth(part["health"] as Health);
      map.update();
      dirty = true;
    }),
    app.on("things", () => {
      build();
      map.build();
    }),
    app.on("health", () => showHealth()),
    app.on("link", () => showHealth()),
    app.on("changes", () => showChanges(app, changes)),
    app.timeline.listen(() => (dirty = true)),
    () => bar.close(),
    () => charts.forEach((c) => c.destroy()),
    () => map.close(),
  ];
  if (app.page.language === "commands" && app.can("rules")) {
    stops.push(
      app.stream.subscribe({ what: "rules", period_ms: 1000 }, (part, fields) => {
        const at = (name: string) => fields.indexOf(name);
        for (const row of (part["rows"] as number[][]) ?? []) {
          rates.set(row[at("id")]!, { bps: row[at("bps")] ?? 0, pps: row[at("pps")] ?? 0 });
        }
      }),
    );
  }

  const showHealth = () => {
    const state = app.health;
    const good = state?.status === "ok" && app.link.state === "open";
    tiles.late.set(
      state?.late_p99_ns ?? NaN,
      state?.late_max_ns ? words.atMost(text(state.late_max_ns, "ns")) : "",
    );
    const status =
      !state || app.link.state !== "open"
        ? words.waitingForData
        : good
          ? words.healthy
          : state.status === "stalled"
            ? words.stalledLong
            : words.degradedLong;
    put(
      health,
      h(
        "p",
        { class: `verdict ${!state ? "" : good ? "good" : "bad"}` },
        h("i", { class: "dot", "aria-hidden": "true" }, h("span", null, good ? "✓" : "!")),
        status,
      ),
      h(
        "dl",
        { class: "meta" },
        meta(
          words.lateness,
          state?.late_p99_ns == null
            ? words.notMeasured
            : `${words.p99} ${text(state.late_p99_ns, "ns")}${state.cause ? `, ${state.cause}` : ""}`,
        ),
        state?.realtime !== undefined &&
          meta(words.priority, state.realtime ? words.realtime : words.ordinary),
        state?.workers !== undefined && meta(words.workers, count(state.workers)),
        state?.faults !== undefined && meta(words.faults, count(state.faults)),
        meta(words.running, elapsed((app.stream.now() * 1000 - app.page.since_ms) * 1e6)),
        meta(words.version, app.page.version),
      ),
      ...(state?.problems ?? []).map((problem) => h("p", { class: "warning" }, problem)),
    );
  };
  showHealth();
  showChanges(app, changes);
  build();
  map.build();
  return {
    node,
    title: words.overview,
    pace: () => (still() ? 250 : 33),
    frame(now) {
      map.frame(now);
      if (!dirty) return;
      // The plots are drawn again for each sample, or in every frame if the samples are less than
      // 0.2 s apart.
      dirty = app.timeline.live && period < 0.2;
      for (const chart of charts) chart.draw();
      bar.frame();
    },
    close: () => stops.forEach((stop) => stop()),
  };
}

function nameOf(thing: Thing): string {
  return thing.kind === "lane" ? `${thing.from} → ${thing.to}` : thing.name;
}

function meta(name: string, value: string): HTMLElement {
  return h("div", null, h("dt", null, name), h("dd", null, value));
}

/** The last changes, newest first. */
export function showChanges(app: App, place: HTMLElement): void {
  const newest = [...app.changes].reverse().slice(0, 5);
  put(
    place,
    newest.length > 0 &&
      h(
        "section",
        { class: "card changes" },
        h("h2", null, words.lastChanges),
        h(
          "ol",
          { class: "history" },
          ...newest.map((c) =>
            h("li", null, h("time", null, clock(c.t_ms / 1000)), " ", h("code", null, c.what)),
          ),
        ),
      ),
  );
}

/** The cards and the curves between them. */
class Network {
  private readonly flow: Flow;
  private cards: (Card | RuleCard)[] = [];
  private edges: Edge[] = [];
  private readonly observer: ResizeObserver;
  private placeAgain = true;

  constructor(
    private readonly app: App,
    private readonly stage: HTMLElement,
    private readonly rows: Map<string, Row>,
    private readonly rates: Map<number, { bps: number; pps: number }>,
  ) {
    this.flow = new Flow(stage);
    this.observer = new ResizeObserver(() => (this.placeAgain = true));
    this.observer.observe(stage);
  }

  close(): void {
    this.observer.disconnect();
  }

  /** Builds the cards anew, when objects or rules have changed. */
  build(): void {
    const { things } = this.app;
    this.cards = [];
    this.edges = [];
    const columns = things.some((t) => t.kind === "link") ? this.links(things) : this.ruled(things);
    put(this.stage, ...columns);
    this.stage.style.setProperty("--columns", String(columns.length));
    flag(this.stage, "empty", things.length === 0);
    if (!things.length) put(this.stage, h("p", { class: "note" }, words.nothingYet));
    this.placeAgain = true;
    this.update();
  }

  update(): void {
    for (const card of this.cards) card.update(this.rows, this.rates);
    this.flow.update();
  }

  frame(now: number): void {
    if (this.placeAgain) {
      this.placeAgain = false;
      this.flow.place(this.edges);
    }
    this.flow.draw(now);
    for (const card of this.cards) card.draw();
  }

  private card<T extends Card | RuleCard>(card: T): T {
    this.cards.push(card);
    return card;
  }

  private edge(
    from: HTMLElement,
    to: HTMLElement,
    of: { rate: () => number; drops: () => number },
  ): void {
    this.edges.push({ from, to, ...of });
  }

  private of(object: string): { rate: () => number; drops: () => number } {
    return {
      rate: () => this.rows.get(object)?.out_bps ?? 0,
      drops: () => this.rows.get(object)?.drops ?? 0,
    };
  }

  /** Hosts and programs in columns by their distance from the first, and the links between them. */
  private links(things: Thing[]): HTMLElement[] {
    const links = things.filter((t) => t.kind === "link").slice(0, MOST);
    const names = [...new Set(links.flatMap((l) => [l.from ?? "", l.to ?? ""]))];
    const depth = new Map<string, number>();
    // The leftmost column begins with an end other than the network, such as the program.
    const first = names.find((n) => n !== "network" && n !== "") ?? names[0] ?? "";
    const queue = [first];
    depth.set(first, 0);
    while (queue.length || depth.size < names.length) {
      const name = queue.shift() ?? names.find((n) => !depth.has(n))!;
      if (!depth.has(name)) depth.set(name, 0);
      for (const link of links) {
        const other = link.from === name ? link.to : link.to === name ? link.from : undefined;
        if (other == null || depth.has(other)) continue;
        depth.set(other, depth.get(name)! + 1);
        queue.push(other);
      }
    }
    const most = Math.max(0, ...depth.values());
    const columns = Array.from({ length: 2 * most + 1 }, (_, i) =>
      h("div", { class: i % 2 ? "column" : "column ends" }),
    );
    const ends = new Map<string, HTMLElement>();
    for (const name of names) {
      const node = h("div", { class: "end card" }, name || words.unnamed);
      ends.set(name, node);
      columns[2 * depth.get(name)!]!.append(node);
    }
    for (const link of links) {
      const card = this.card(new Card(this.app, link));
      const [from, to] = [link.from ?? "", link.to ?? ""];
      const at = Math.min(2 * Math.min(depth.get(from)!, depth.get(to)!) + 1, columns.length - 1);
      columns[at]!.append(card.node);
      const of = this.of(link.object);
      this.edge(ends.get(from)!, card.node, {
        rate: () => this.rows.get(link.object)?.in_bps ?? 0,
        drops: () => 0,
      });
      this.edge(card.node, ends.get(to)!, of);
    }
    return columns;
  }

  /** Lanes, rules, pipes with queues, and schedulers. */
  private ruled(things: Thing[]): HTMLElement[] {
    const columns: HTMLElement[] = [];
    const column = (name: string, nodes: HTMLElement[]) => {
      if (nodes.length) columns.push(h("div", { class: "column" }, h("h2", null, name), ...nodes));
    };
    const busy = (t: Thing) => this.rows.get(t.object)?.out_bps ?? 0;
    const of = (kind: Thing["kind"]) => things.filter((t) => t.kind === kind);
    const lanes = of("lane").map((t) => this.card(new Card(this.app, t)));
    column(
      words.lanes,
      lanes.map((c) => c.node),
    );

    const rules = this.app.rules
      .filter((r) => r.enabled)
      .slice(0, MOST)
      .map((rule) => ({ rule, card: this.card(new RuleCard(rule)) }));
    const hidden = this.app.rules.filter((r) => r.enabled).length - rules.length;
    column(words.rules, [
      ...rules.map((r) => r.card.node),
      ...(hidden > 0 ? [more(hidden, "#/rules")] : []),
    ]);

    const shown = (kind: Thing["kind"]) => {
      const all = of(kind);
      const best =
        all.length > MOST ? [...all].sort((a, b) => busy(b) - busy(a)).slice(0, MOST) : all;
      return best.map((t) => this.card(new Card(this.app, t)));
    };
    const pipes = shown("pipe");
    const queues = shown("queue");
    const scheds = shown("sched");
    const hiddenOf = (kind: Thing["kind"], cards: Card[]) => of(kind).length - cards.length;
    // The server lists a bounded number of objects. The others are counted with the pipes.
    const rest =
      this.app.total - things.length + hiddenOf("pipe", pipes) + hiddenOf("queue", queues);
    column(
      queues.length ? words.pipesAndQueues : words.pipes,
      [...pipes, ...queues]
        .map((c) => c.node)
        .concat(rest > 0 ? [more(rest, "#/instances/pipes")] : []),
    );
    const hiddenScheds = hiddenOf("sched", scheds);
    column(
      words.schedulers,
      scheds
        .map((c) => c.node)
        .concat(hiddenScheds > 0 ? [more(hiddenScheds, "#/instances/scheds")] : []),
    );

    const find = (object: string) =>
      [...pipes, ...queues, ...scheds].find((c) => c.thing?.object === object);
    for (const { rule, card } of rules) {
      const rate = () => this.rates.get(rule.id)?.bps ?? 0;
      const receives = /\brecv\s+(\S+)/.exec(rule.command)?.[1];
      const leaves = /\bxmit\s+(\S+)/.exec(rule.command)?.[1];
      for (const lane of lanes) {
        const { from, to } = lane.thing!;
        if ((receives && receives !== from) || (leaves && leaves !== to)) continue;
        this.edge(lane.node, card.node, {
          rate: () => Math.min(rate(), this.rows.get(lane.thing!.object)?.in_bps ?? 0),
          drops: () => 0,
        });
      }
      const target = /\b(pipe|queue)\s+(\d+)/.exec(rule.command);
      const to = target && find(`${target[1]}:${target[2]}`);
      if (to) this.edge(card.node, to.node, { rate, drops: () => 0 });
    }
    for (const queue of queues) {
      const parent = queue.thing?.parent && find(queue.thing.parent);
      if (parent) this.edge(queue.node, parent.node, this.of(queue.thing!.object));
    }
    return columns;
  }
}

function more(number: number, href: string): HTMLElement {
  return h("a", { class: "card more", href }, words.more(count(number)));
}

class Card {
  readonly node: HTMLElement;
  private readonly rate = new Figure("bps");
  private readonly queue = new Figure("packets");
  private readonly wait = new Figure("ns");
  private readonly drops = new Figure("pps");
  private readonly dropPlace: HTMLElement;
  private readonly fill = h("i");
  private readonly canvas = h("canvas", { class: "spark", "aria-hidden": "true" });
  private readonly tail = new Tail(TAIL);
  private readonly late: boolean;
  private readonly fullRate: number | undefined;
  private fresh = false;

  constructor(
    app: App,
    readonly thing: Thing | undefined,
  ) {
    const t = thing!;
    // The rate of a masked pipe applies to each instance, but the card shows the sum of all.
    this.fullRate = t.masked ? undefined : (t.rate_bps ?? undefined);
    this.late = t.kind === "lane";
    this.dropPlace = h("span", { class: "drops" }, this.drops.node, ` ${words.dropped}`);
    const spec =
      t.kind === "lane"
        ? ""
        : t.kind === "pipe" || t.kind === "link"
          ? inWords(t) || words.perfect
          : (t.spec ?? "").replace(/^\w+ \d+ config /, "");
    this.node = h(
      "article",
      { class: `card thing ${t.kind}` },
      h(
        "header",
        null,
        h("a", { href: `#/o/${encodeURIComponent(t.object)}` }, nameOf(t)),
        this.rate.node,
      ),
      spec && h("p", { class: "spec" }, spec),
      this.canvas,
      this.fullRate ? h("div", { class: "load", "aria-hidden": "true" }, this.fill) : null,
      h(
        "p",
        { class: "small numbers" },
        h("span", null, this.queue.node, ` ${words.waitingShort}`),
        h("span", null, this.wait.node, ` ${this.late ? words.late : words.delayed}`),
        this.dropPlace,
      ),
      t.masked &&
        app.can("top") &&
        h(
          "a",
          { class: "instances", href: `#/instances/${encodeURIComponent(t.object)}` },
          words.itsInstances,
        ),
    );
  }

  update(rows: Map<string, Row>, _rates?: unknown): void {
    const row = rows.get(this.thing!.object);
    this.tail.push(row?.out_bps ?? NaN);
    this.fresh = true;
    this.rate.set(row?.out_bps);
    this.queue.set(row?.queue_packets);
    this.wait.set(this.late ? row?.late_p99_ns : row?.wait_p99_ns);
    const drops = (row?.drops ?? 0) / (PERIOD / 1000);
    this.drops.set(drops);
    flag(this.dropPlace, "bad", drops > 0);
    if (this.fullRate) {
      const load = Math.min(1, (row?.out_bps ?? 0) / this.fullRate);
      this.fill.style.transform = `scaleX(${load.toFixed(3)})`;
      flag(this.fill, "full", load > 0.97);
    }
  }

  draw(): void {
    if (!this.fresh) return;
    this.fresh = false;
    this.tail.draw(this.canvas);
  }
}

class RuleCard {
  readonly node: HTMLElement;
  readonly thing: Thing | undefined = undefined;
  private readonly rate = new Figure("bps");
  private readonly packets = new Figure("pps");

  constructor(private readonly rule: Rule) {
    this.node = h(
      "article",
      { class: "card thing rule" },
      h("header", null, h("a", { href: "#/rules" }, words.rule(rule.number)), this.rate.node),
      h("p", { class: "spec" }, h("code", null, rule.command.replace(/^add \d+ /, ""))),
      h(
        "p",
        { class: "small numbers" },
        h("span", null, `${words.packetsTitle} `, this.packets.node),
      ),
    );
  }

  update(_rows: Map<string, Row>, rates: Map<number, { bps: number; pps: number }>): void {
    const rate = rates.get(this.rule.id);
    this.rate.set(rate?.bps);
    this.packets.set(rate?.pps);
  }

  draw(): void {
    // A rule has no plot.
  }
}

/** The time between two samples, ms; samples further apart than GAP s have a gap between them. */
const PERIOD = 500;
const GAP = 3;
/** The most cards of a column, and the samples of a card's plot. */
const MOST = 8;
const TAIL = 60;
/** The number of channels for sums; the most links with separate curves; colours and dashes. */
const SUMS = 4;
const CURVES = 6;
const HUES = [0, 1, 2, 3, 6, 5];
const DASHES: (number[] | undefined)[] = [undefined, [6, 3], [2, 3], undefined, [6, 3], [2, 3]];
