// Reports of a span of time: of the range that is shown, or from the start to the end of a
// recording. The server makes one HTML file, which stays on this page as a link.

import type { App } from "./app";
import { flag, h, put, say } from "./dom";
import { clock, elapsed, text } from "./format";
import { words } from "./text";

/** What is recorded and which reports were made; one for all views. */
class Recorder {
  /** When the recording began, s. */
  since: number | undefined;
  objects: string[] = [];
  note = "";
  readonly reports: { url: string; file: string; label: string; size: string }[] = [];
  private readonly listeners = new Set<() => void>();
  private stops: (() => void)[] = [];
  private busy = false;
  /** Settles when no report is being made. */
  private made: Promise<void> = Promise.resolve();

  constructor(private readonly app: App) {}

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private tell(): void {
    for (const listener of [...this.listeners]) listener();
  }

  /** Begins a recording. The objects are read until it ends, whichever view is open. */
  start(objects: string[]): void {
    this.objects = objects.slice(0, MOST_WATCHED);
    this.since = this.app.stream.now();
    this.stops = this.objects.map((object) => this.app.watch(object).stop);
    this.note = "";
    this.tell();
  }

  stop(): void {
    const { since } = this;
    this.since = undefined;
    this.stops.forEach((stop) => stop());
    this.stops = [];
    if (since === undefined) return;
    const { objects } = this;
    const end = this.app.stream.now();
    this.made = this.made.then(() => this.make(objects, since, end));
  }

  /** Makes a report, unless one is being made. */
  report(objects: string[], from: number, to: number): void {
    if (!this.busy) this.made = this.make(objects, from, to);
  }

  /** Asks for a report and keeps it as a link. */
  private async make(objects: string[], from: number, to: number): Promise<void> {
    this.busy = true;
    this.note = words.reportComes;
    this.tell();
    const most = this.app.page.limits["report_objects"] ?? 16;
    const query = new URLSearchParams({
      objects: JSON.stringify(objects.slice(0, most)),
      from_ms: String(Math.floor(from * 1000)),
      to_ms: String(Math.ceil(to * 1000)),
    });
    try {
      const response = await fetch(`/v1/report?${query.toString()}`);
      if (!response.ok) {
        const problem = (await response.json().catch(() => null)) as { error?: string } | null;
        this.note = problem?.error ?? `${response.status} ${response.statusText}`;
        return;
      }
      const blob = await response.blob();
      const file =
        /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ??
        "weir.html";
      const label = words.reportOf(clock(from), clock(to));
      this.reports.push({
        url: URL.createObjectURL(blob),
        file,
        label,
        size: text(blob.size, "bytes"),
      });
      while (this.reports.length > MOST_REPORTS) URL.revokeObjectURL(this.reports.shift()!.url);
      this.note = "";
    } catch {
      this.note = words.notSent;
    } finally {
      this.busy = false;
      this.tell();
    }
  }
}

const recorders = new WeakMap<App, Recorder>();

/** The buttons of a view, and the links of the reports so far. `objects` are those of the view. */
export function recorder(
  app: App,
  objects: () => string[],
): { buttons: HTMLElement; links: HTMLElement; frame: () => void; close: () => void } | undefined {
  if (!app.can("report")) return undefined;
  const own = recorders.get(app) ?? new Recorder(app);
  recorders.set(app, own);
  const report = h(
    "button",
    {
      type: "button",
      class: "small",
      title: words.reportHelp,
      onclick: () => {
        const [from, to] = app.timeline.range();
        own.report(objects(), from, to);
      },
    },
    words.report,
  );
  const record = h("button", {
    type: "button",
    class: "small",
    title: words.recordHelp,
    onclick: () => (own.since === undefined ? own.start(objects()) : own.stop()),
  });
  const links = h("p", { class: "reports", "aria-live": "polite" });
  const frame = () => {
    const { since } = own;
    say(
      record,
      since === undefined
        ? words.record
        : words.stopRecord(elapsed(Math.max(0, app.stream.now() - since) * 1e9)),
    );
    flag(record, "recording", since !== undefined);
  };
  const tell = () => {
    links.hidden = own.reports.length === 0 && !own.note;
    put(
      links,
      own.note && h("span", { class: own.note === words.reportComes ? "note" : "bad" }, own.note),
      ...[...own.reports]
        .reverse()
        .map((one) =>
          h("span", null, h("a", { href: one.url, download: one.file }, one.label), ` ${one.size}`),
        ),
    );
    frame();
  };
  const forget = own.listen(tell);
  tell();
  return { buttons: h("span", { class: "group" }, report, record), links, frame, close: forget };
}

/** The most objects of a recording: a tab has 16 subscriptions, and a view needs some. */
const MOST_WATCHED = 12;
/** Reports that stay as links; older ones are forgotten. */
const MOST_REPORTS = 8;
