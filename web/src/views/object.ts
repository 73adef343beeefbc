// One link, pipe, queue, scheduler, lane or instance: its values over time, and how to change it.

import type { Thing } from "../api";
import type { App, View } from "../app";
import { Chart, type Curve } from "../chart";
import { h, put, say } from "../dom";
import { Tile } from "../figure";
import { Form } from "../form";
import { text } from "../format";
import { channel } from "../samples";
import { body, freePipe, inWords, ownPipe } from "../spec";
import { words } from "../text";
import { toolbar } from "../toolbar";
import { showChanges } from "./overview";

export function objectView(app: App, object: string): View {
  const watch = app.watch(object);
  const { samples } = watch;
  const found = () => app.thing(object);
  const key = app.keys.get(object);
  const parent = object.includes("/") ? app.thing(object.split("/")[0]!) : undefined;
  const name =
    found()?.name ?? (key && parent ? words.instanceOf(key, parent.name) : (key ?? object));
  const file = () => name;
  const markers = () => app.markers();
  const view = (from: number, to: number, px: number) => samples.series.view(from, to, px);
  // The rate of a masked pipe is that of each instance, but its plot shows the sum of all.
  const level = () =>
    found()?.masked ? undefined : (samples.newest["rate_bps"] ?? found()?.rate_bps ?? undefined);
  const base = { view, markers, file };
  const kind = object.split(":")[0] as Thing["kind"];
  const late = kind === "lane" || kind === "link" || kind === "path";

  const chart = (
    title: string,
    description: string,
    unit: Chart["options"]["unit"],
    curves: Curve[],
    more = {},
  ) => new Chart({ title, description, unit, curves, ...base, ...more }, app.timeline);
  const line = (
    label: string,
    of: Parameters<typeof channel>[0],
    colour: number,
    dash?: number[],
  ): Curve => ({
    name: label,
    channel: channel(of),
    shape: "line",
    colour,
    ...(dash ? { dash } : {}),
  });
  const charts = [
    chart(
      words.throughput,
      words.throughputOne,
      "bps",
      [line(words.offered, "in_bps", 1, [5, 4]), line(words.carriedLower, "out_bps", 0)],
      { level, levelName: words.configured },
    ),
    chart(words.waiting, words.waitingOne, "packets", [
      { name: words.leastToMost, channel: channel("queue_packets"), shape: "band", colour: 5 },
      line(words.mean, "queue_packets", 4),
    ]),
    chart(words.queueingDelay, words.queueingDelayLong, "ns", [
      line(words.median, "wait_p50_ns", 0),
      line(words.p99, "wait_p99_ns", 1, [6, 3]),
      line(words.greatest, "wait_max_ns", 4, [2, 3]),
    ]),
    chart(words.throughDelay, words.throughDelayLong, "ns", [
      line(words.median, "total_p50_ns", 0),
      line(words.p99, "total_p99_ns", 1, [6, 3]),
    ]),
    ...(late
      ? [
          chart(words.lateness, words.latenessLong, "ns", [
            line(words.median, "late_p50_ns", 0),
            line(words.p99, "late_p99_ns", 1, [6, 3]),
            line(words.greatest, "late_max_ns", 4, [2, 3]),
          ]),
        ]
      : []),
    chart(words.packetRate, words.packetRateLong, "pps", [
      line(words.offered, "in_pps", 1, [5, 4]),
      line(words.carriedLower, "out_pps", 0),
    ]),
  ];
  // A plot of drops is built anew for every new reason.
  const dropPlace = h("div", { class: "slot" });
  let drops: Chart | undefined;
  let version = -1;
  const buildDrops = () => {
    version = samples.version;
    drops?.destroy();
    const curves: Curve[] = samples.reasons.map((reason, i) => ({
      name:
        reason.kind === "marks"
          ? words.marked(reason.name.replaceAll("_", " "))
          : reason.name.replaceAll("_", " "),
      channel: reason.channel,
      shape: "stack",
      colour: REASONS[i % REASONS.length]!,
    }));
    if (!curves.length)
      curves.push({ name: words.dropped, channel: channel("drops"), shape: "stack", colour: 1 });
    drops = chart(words.dropsAndMarks, words.dropsAndMarksLong, "pps", curves);
    put(dropPlace, drops.node);
  };

  const tiles = {
    carried: new Tile(words.carried, "bps"),
    queue: new Tile(words.waiting, "packets"),
    wait: new Tile(words.queueingDelay99, "ns"),
    drops: new Tile(words.dropsPerSecond, "pps"),
    ...(late ? { late: new Tile(words.lateness99, "ns") } : {}),
  };
  const heading = h("h1", null, name);
  const spec = h("p", { class: "spec" });
  const language = h("p", { class: "spec" });
  const note = h("p", { class: "warning", role: "alert", hidden: true });
  const bar = toolbar(app, object.includes("/") ? undefined : () => [object]);
  const instances = h("p");
  const changeable =
    app.can("change") && kind !== "lane" && kind !== "path" && !object.includes("/");
  const form = changeable && found() ? new Form(app, found()) : undefined;
  const own =
    app.can("change") && key && parent
      ? ownPipe(parent, key, app.rules, freePipe(app.things), 2)
      : undefined;
  const ownForm = own ? new Form(app, undefined, own) : undefined;
  const changes = h("div");
  const order = [
    charts[0]!.node,
    charts[1]!.node,
    charts[2]!.node,
    dropPlace,
    ...charts.slice(3).map((c) => c.node),
  ];
  const node = h(
    "div",
    { class: "view" },
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, words.overview), " › "),
    heading,
    spec,
    language,
    note,
    instances,
    h("dl", { class: "tiles" }, ...Object.values(tiles).map((t) => t.node)),
    form &&
      h(
        "details",
        { class: "fold", open: matchMedia("(min-width:900px)").matches },
        h("summary", null, words.changeIt),
        form.node,
      ),
    ownForm &&
      h(
        "details",
        { class: "fold", open: true },
        h("summary", null, words.ownPipe),
        h("p", { class: "note" }, words.ownPipeHelp),
        ownForm.node,
      ),
    bar.node,
    h("div", { class: "plots" }, ...order),
    changes,
  );
  const describe = () => {
    const thing = found();
    if (!thing && parent) say(spec, inWords(parent));
    if (!thing) return;
    say(heading, thing.kind === "lane" ? `${thing.from} → ${thing.to}` : thing.name);
    const plain = inWords(thing);
    say(spec, thing.kind === "lane" ? words.laneIs : plain || words.perfect);
    put(language, body(thing) && h("code", null, body(thing)));
    put(
      instances,
      thing.masked &&
        app.can("top") &&
        h("a", { href: `#/instances/${encodeURIComponent(object)}` }, words.itsInstances),
    );
  };
  describe();
  showChanges(app, changes);
  buildDrops();
  let dirty = true;
  let drawn = -Infinity;
  let drawnAt = 0;
  const { timeline } = app;
  // While the range follows the present, it is drawn again when it has moved by about two pixels.
  const pace = () => Math.min(500, Math.max(66, timeline.span * 3));
  const stops = [
    app.on("things", describe),
    app.on("changes", () => showChanges(app, changes)),
    app.timeline.listen(() => (dirty = true)),
    () => bar.close(),
    () => charts.forEach((c) => c.destroy()),
    () => drops?.destroy(),
    () => form?.close(),
    () => ownForm?.close(),
    () => watch.stop(),
  ];
  return {
    node,
    title: name,
    pace,
    frame() {
      const last = samples.series.last();
      const moved = last > drawn && app.timeline.live;
      const now = performance.now();
      if (!dirty && (!moved || now - drawnAt < pace() - 20)) return;
      drawnAt = now;
      dirty = false;
      drawn = last;
      if (version !== samples.version) buildDrops();
      const ended = watch.ended();
      note.hidden = ended === undefined;
      if (ended !== undefined) say(note, ended);
      for (const c of charts) c.draw();
      drops?.draw();
      bar.frame();
      const { newest } = samples;
      const rate = level();
      tiles.carried.set(
        newest["out_bps"],
        rate
          ? words.ofRate(text(rate, "bps"))
          : words.offeredOf(text(newest["in_bps"] ?? NaN, "bps")),
      );
      tiles.queue.set(newest["queue_packets_max"]);
      tiles.wait.set(newest["wait_p99_ns"]);
      const recent = Array.from(
        samples.series.view(last - 1, last, 100).mean[channel("drops")] ?? [],
      );
      const perSecond = recent.length
        ? recent.reduce((sum, n) => sum + (n || 0), 0) / recent.length
        : 0;
      tiles.drops.set(
        perSecond,
        words.droppedSince(String(samples.sums.get("drops") ?? 0)),
        perSecond > 0,
      );
      tiles.late?.set(newest["late_p99_ns"]);
    },
    close: () => stops.forEach((stop) => stop()),
  };
}

/** The colours of reasons. */
const REASONS = [1, 6, 3, 5, 2, 4, 0];
