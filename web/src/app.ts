// The state that all views share: the objects, their samples, and the changes.

import { get, Refused, type Change, type Page, type Rule, type Thing } from "./api";
import type { Marker } from "./chart";
import { Samples } from "./samples";
import { Stream, type Hello, type Link } from "./stream";
import { Timeline } from "./timeline";

export interface Health {
  status: "ok" | "degraded" | "stalled";
  problems: string[];
  late_p99_ns?: number | null;
  late_max_ns?: number | null;
  cause?: string | null;
  realtime?: boolean;
  workers?: number;
  faults?: number;
}

type Topic = "things" | "changes" | "health" | "link" | "page" | "stale";

interface Watched {
  samples: Samples;
  users: number;
  stop: () => void;
  /** Why there are no more samples. */
  ended: string | undefined;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class App {
  readonly stream: Stream;
  readonly timeline: Timeline;
  things: Thing[] = [];
  total = 0;
  rules: Rule[] = [];
  changes: Change[] = [];
  health: Health | undefined;
  link: Link = { state: "connecting" };
  /** The text that distinguishes each instance seen so far, by the instance's object. */
  readonly keys = new Map<string, string>();
  /** Whether the server has another version of the page than the one that is open. */
  stale = false;
  /** The revision of the objects that were read last; -1 before the first reading. */
  revision = -1;
  private readonly listeners = new Map<Topic, Set<() => void>>();
  private readonly watched = new Map<string, Watched>();
  private loading = false;
  /** Settles when the objects have been read for the first time. */
  readonly known: Promise<void>;

  constructor(
    public page: Page,
    denied: () => void,
  ) {
    this.stream = new Stream({
      hello: (hello) => this.hello(hello),
      link: (link) => {
        this.link = link;
        this.tell("link");
      },
      message: (message) => this.message(message),
      denied,
    });
    const oldest = () =>
      Math.min(...[...this.watched.values()].map((w) => w.samples.series.first()));
    this.timeline = new Timeline(() => this.stream.now(), oldest);
    this.stream.connect();
    this.known = this.first();
  }

  can(feature: string): boolean {
    return this.page.features.includes(feature);
  }

  get mayChange(): boolean {
    return this.page.access === "full";
  }

  on(topic: Topic, listener: () => void): () => void {
    const set = this.listeners.get(topic) ?? new Set();
    this.listeners.set(topic, set);
    set.add(listener);
    return () => set.delete(listener);
  }

  private tell(topic: Topic): void {
    for (const listener of [...(this.listeners.get(topic) ?? [])]) listener();
  }

  thing(object: string): Thing | undefined {
    return this.things.find((thing) => thing.object === object);
  }

  markers(): Marker[] {
    return this.changes.map((change) => ({ t: change.t_ms / 1000, text: change.what }));
  }

  /** Reads everything for the first time, and repeats this until a reading succeeds. */
  private async first(): Promise<void> {
    for (let pause = AGAIN; ; pause = Math.min(pause * 2, MOST_AGAIN)) {
      await this.load();
      if (this.revision >= 0) return;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  /** Reads the objects, rules and changes anew. */
  async load(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      const objects = await get<{ revision: number; total: number; objects: Thing[] }>(
        "/v1/objects",
      );
      this.things = objects.objects;
      this.total = objects.total;
      this.revision = objects.revision;
      if (this.can("rules")) {
        const rules = await get<Rule[] | { rules: Rule[] }>("/v1/rules");
        this.rules = Array.isArray(rules) ? rules : rules.rules;
      }
      if (this.can("changes")) {
        this.changes = (await get<{ changes: Change[] }>("/v1/changes")).changes;
        this.tell("changes");
      }
      this.tell("things");
    } catch (error) {
      // The stream notices a lost connection and tries again.
      if (!(error instanceof Refused) && !(error instanceof TypeError)) throw error;
    } finally {
      this.loading = false;
    }
  }

  private hello(hello: Hello): void {
    if (hello.page_version !== this.page.page_version) {
      this.stale = true;
      this.tell("stale");
    }
    if (this.page.version !== hello.version) {
      this.page = { ...this.page, version: hello.version };
      this.tell("page");
    }
    if (this.revision >= 0) void this.load();
  }

  private message(message: { type: string; [more: string]: unknown }): void {
    if (message.type === "change") {
      this.changes = [...this.changes, message["change"] as Change].slice(-100);
      this.tell("changes");
      void this.load();
    } else if (message.type === "health") {
      this.setHealth({ ...this.health, ...(message as unknown as Health) });
    } else if (message.type === "frame" && typeof message["revision"] === "number") {
      if (this.revision >= 0 && message["revision"] !== this.revision) {
        this.revision = message["revision"];
        void this.load();
      }
    }
  }

  setHealth(health: Health): void {
    this.health = health;
    this.tell("health");
  }

  /**
   * The samples of an object, subscribed while a view uses them. They are kept for a while after
   * that, so that returning to a view does not start with an empty plot.
   */
  watch(
    object: string,
    periodMs = 100,
  ): { samples: Samples; ended: () => string | undefined; stop: () => void } {
    let watched = this.watched.get(object);
    if (!watched) {
      watched = {
        samples: new Samples(),
        users: 0,
        stop: () => {},
        ended: undefined,
        timer: undefined,
      };
      this.watched.set(object, watched);
    }
    const entry = watched;
    clearTimeout(entry.timer);
    if (entry.users++ === 0) {
      entry.ended = undefined;
      const history = this.can("history") ? 86_400 : 180;
      entry.stop = this.stream.subscribe(
        { what: "object", object, period_ms: periodMs, history_s: history },
        (part, fields) => entry.samples.take(part, fields),
        (message) => (entry.ended = message),
      );
    }
    let done = false;
    return {
      samples: entry.samples,
      ended: () => entry.ended,
      stop: () => {
        if (done) return;
        done = true;
        if (--entry.users > 0) return;
        entry.stop();
        entry.timer = setTimeout(() => this.watched.delete(object), KEEP);
      },
    };
  }
}

/** A view: its element, and what it does at each frame and at its end. */
export interface View {
  node: HTMLElement;
  title: string;
  /** Called at most 30 times a second while the page is visible. */
  frame?: (now: number) => void;
  /** The time between two frames while there is no input, ms; 30 frames a second if absent. */
  pace?: () => number;
  close?: () => void;
}

/** Samples of an object that no view shows are kept for this time, ms. */
const KEEP = 120_000;
/** The first and the longest pause before the first reading is tried again, ms. */
const AGAIN = 500;
const MOST_AGAIN = 10_000;
