// The kernel's queues: the user chooses a device, and its queues are read while this view is open.

import { get, Refused } from "../api";
import type { App, View } from "../app";
import { Chart } from "../chart";
import { flag, h, put, say } from "../dom";
import { Figure } from "../figure";
import { count } from "../format";
import { Series } from "../series";
import { words } from "../text";
import { toolbar } from "../toolbar";

interface Queue {
  id: number;
  label: string;
  root: boolean;
  packets_min: number;
  packets_mean: number;
  packets_max: number;
  bytes_mean: number;
  bytes_max: number;
  sent: number;
  drops: number;
}

interface Answer {
  method: string;
  rate: number;
  remarks: string[];
  /** Why reading has ended. */
  ended: string | null;
  points: { number: number; t_ms: number; span_ms: number; queues: Queue[] }[];
}

/** A queue has three channels: packets that wait, their bytes, and drops per second. */
const WAITING = 0;
const CHANNELS = 3;

/** What was read of a device, kept while other views are shown. */
interface Past {
  series: Map<
    number,
    { label: string; root: boolean; series: Series; newest: Queue; span: number; dropped: number }
  >;
  /** The number of the last point that was read. */
  after: number;
}
const kept = new Map<string, Past>();

export function kernelView(app: App, given: string): View {
  const pick = h("select", { id: "device" });
  const state = h("p", { class: "note", "aria-live": "polite" });
  const remarks = h("div");
  const body = h("tbody");
  const head = [
    words.queueName,
    words.waitingTitle,
    words.meanTitle,
    words.greatestTitle,
    words.bytesTitle,
    words.sentRate,
    words.dropsPerSecond,
    words.droppedTotal,
  ];
  const table = h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": words.kernel, hidden: true },
    h(
      "table",
      { class: "numbers" },
      h("thead", null, h("tr", null, ...head.map((name) => h("th", { scope: "col" }, name)))),
      body,
    ),
  );
  const plots = h("div", { class: "plots" });
  const bar = toolbar(app);
  const node = h(
    "div",
    { class: "view kernel" },
    h("h1", null, words.kernel),
    h("p", { class: "note" }, words.kernelHelp),
    h("div", { class: "pick" }, h("label", { for: "device" }, words.device), pick, state),
    remarks,
    bar.node,
    plots,
    table,
  );
  let device = given;
  let closed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let charts = new Map<number, Chart>();
  let rows = new Map<number, Row>();
  let told = "";
  let dirty = true;

  const past = () => {
    const known = kept.get(device) ?? { series: new Map(), after: 0 };
    kept.set(device, known);
    return known;
  };
  const clear = () => {
    for (const chart of charts.values()) chart.destroy();
    charts = new Map();
    rows = new Map();
    put(plots);
    put(body);
    put(remarks);
    told = "";
    table.hidden = true;
  };
  const devices = async () => {
    try {
      const answer = await get<{ devices: string[]; more: number }>("/v1/kernel");
      if (closed) return;
      const names = answer.devices;
      if (device && !names.includes(device)) names.unshift(device);
      // The user more likely means another device than the loopback.
      if (!device) device = names.find((name) => name !== "lo") ?? names[0] ?? "";
      put(
        pick,
        ...names.map((name) => h("option", { value: name, selected: name === device }, name)),
      );
      if (!device) say(state, words.noDevices);
      void poll();
    } catch (error) {
      say(state, error instanceof Refused ? words.kernelRefused(error.message) : words.notSent);
      timer = setTimeout(() => void devices(), AGAIN);
    }
  };
  const poll = async () => {
    clearTimeout(timer);
    if (closed || !device) return;
    const asked = device;
    let pause = PERIOD;
    if (document.hidden) pause = PERIOD * 4;
    else {
      try {
        const known = past();
        const answer = await get<Answer>(
          `/v1/kernel/queues?device=${encodeURIComponent(asked)}&after=${known.after}`,
        );
        if (closed || asked !== device) return;
        take(known, answer);
        if (answer.ended !== null) pause = AGAIN;
      } catch (error) {
        if (closed || asked !== device) return;
        say(state, error instanceof Refused ? words.kernelRefused(error.message) : words.notSent);
        pause = AGAIN;
      }
    }
    timer = setTimeout(() => void poll(), pause);
  };
  const take = (known: Past, answer: Answer) => {
    say(
      state,
      answer.ended !== null
        ? words.kernelRefused(answer.ended)
        : answer.method
          ? words.readBy(words.methods[answer.method] ?? answer.method, count(answer.rate))
          : words.waitingForData,
    );
    flag(state, "bad", answer.ended !== null);
    const lines = JSON.stringify(answer.remarks);
    if (lines !== told) {
      told = lines;
      put(remarks, ...answer.remarks.map((line) => h("p", { class: "remark" }, line)));
    }
    // A smaller number than before means that the server has begun its numbering anew.
    const last = answer.points[answer.points.length - 1];
    if (last && last.number < known.after) known.after = 0;
    for (const point of answer.points) {
      known.after = Math.max(known.after, point.number);
      const t = point.t_ms / 1000;
      const span = point.span_ms / 1000;
      const seen = new Set<number>();
      for (const queue of point.queues) {
        seen.add(queue.id);
        let one = known.series.get(queue.id);
        if (!one || one.label !== queue.label) {
          one = {
            label: queue.label,
            root: queue.root,
            series: new Series(CHANNELS),
            newest: queue,
            span,
            dropped: 0,
          };
          known.series.set(queue.id, one);
          if (known.series.size > MOST_QUEUES)
            known.series.delete(known.series.keys().next().value!);
        }
        one.newest = queue;
        one.span = span;
        one.dropped += queue.drops;
        const end = one.series.last();
        if (t - span > end + Math.max(0.25, 1.5 * span)) one.series.gap(end + 0.001);
        const drops = span > 0 ? queue.drops / span : 0;
        one.series.push(
          t,
          [queue.packets_mean, queue.bytes_mean, drops],
          [queue.packets_min, 0, drops],
          [queue.packets_max, queue.bytes_max, drops],
        );
      }
      for (const id of known.series.keys())
        if (!seen.has(id) && rows.has(id) && point === last) removeQueue(known, id);
    }
    for (const [id, one] of known.series) if (!rows.has(id)) show(id, one);
    for (const [id, row] of rows) row.update(known.series.get(id));
    table.hidden = rows.size === 0;
    dirty = true;
  };
  const removeQueue = (known: Past, id: number) => {
    known.series.delete(id);
    rows.get(id)?.node.remove();
    rows.delete(id);
    charts.get(id)?.node.remove();
    charts.get(id)?.destroy();
    charts.delete(id);
  };
  const show = (id: number, one: { label: string; series: Series }) => {
    const row = new Row(one.label);
    rows.set(id, row);
    body.append(row.node);
    if (charts.size >= MOST_CHARTS) return;
    const chart = new Chart(
      {
        title: one.label,
        description: words.waitingOne,
        unit: "packets",
        curves: [
          { name: words.leastToMost, channel: WAITING, shape: "band", colour: 5 },
          { name: words.mean, channel: WAITING, shape: "line", colour: 4 },
        ],
        view: (from, to, px) => one.series.view(from, to, px),
        file: () => one.label,
      },
      app.timeline,
    );
    charts.set(id, chart);
    plots.append(chart.node);
  };
  pick.addEventListener("change", () => {
    device = pick.value;
    history.replaceState(null, "", `#/kernel/${encodeURIComponent(device)}`);
    clear();
    say(state, words.waitingForData);
    void poll();
  });
  say(state, words.waitingForData);
  void devices();
  const forget = app.timeline.listen(() => (dirty = true));
  const pace = () => Math.min(500, Math.max(66, app.timeline.span * 3));
  let drawn = 0;
  return {
    node,
    title: words.kernel,
    pace,
    frame() {
      const now = performance.now();
      if (!dirty || now - drawn < pace() - 20) return;
      drawn = now;
      dirty = false;
      for (const chart of charts.values()) chart.draw();
      bar.frame();
    },
    close() {
      closed = true;
      clearTimeout(timer);
      forget();
      bar.close();
      for (const chart of charts.values()) chart.destroy();
    },
  };
}

/** A row of the table: the newest values of a queue. */
class Row {
  readonly node: HTMLElement;
  private readonly figures = [
    new Figure("packets"),
    new Figure("packets"),
    new Figure("packets"),
    new Figure("bytes"),
    new Figure("pps"),
    new Figure("pps"),
    new Figure("count"),
  ];

  constructor(label: string) {
    this.node = h(
      "tr",
      null,
      h("th", { scope: "row" }, label),
      ...this.figures.map((figure) => h("td", null, figure.node)),
    );
  }

  update(one: { newest: Queue; span: number; dropped: number; series: Series } | undefined): void {
    if (!one) return;
    const { newest: q, span } = one;
    const recent = one.series.view(one.series.last() - RECENT, one.series.last(), 600).high[
      WAITING
    ];
    const most = recent
      ? Math.max(0, ...[...recent].filter((n) => !Number.isNaN(n)))
      : q.packets_max;
    const perSecond = (n: number) => (span > 0 ? n / span : 0);
    const values = [
      q.packets_max,
      q.packets_mean,
      most,
      q.bytes_mean,
      perSecond(q.sent),
      perSecond(q.drops),
      one.dropped,
    ];
    this.figures.forEach((figure, i) => figure.set(values[i]));
    flag(this.node.children[6]!, "bad", q.drops > 0);
  }
}

/** The time between two requests while the page is visible, and after a refusal, ms. */
const PERIOD = 250;
const AGAIN = 3000;
/** Maximum numbers of queues with plots and of queues that are kept. */
const MOST_CHARTS = 8;
const MOST_QUEUES = 64;
/** The period over which the greatest length is shown, s. */
const RECENT = 30;
