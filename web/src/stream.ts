// The stream of measurements: one WebSocket, reopened when it breaks.

import { words } from "./text";

export interface Hello {
  now_ms: number;
  version: string;
  page_version: string;
  revision: number;
  access: "full" | "read";
  name: string;
}

/** One part of a frame: the newest values of a subscription. */
export interface Part {
  id: number;
  points?: unknown[][];
  history?: boolean;
  gap?: boolean;
  [more: string]: unknown;
}

export interface Request {
  what: "overview" | "object" | "top" | "rules";
  period_ms: number;
  [more: string]: unknown;
}

interface Subscription {
  id: number;
  request: Request;
  take: (part: Part, fields: string[]) => void;
  /** Called when the object has vanished, or the server refuses the subscription. */
  end: (message: string) => void;
  fields: string[];
}

/** The state of the connection to the server. */
export type Link =
  { state: "connecting" } | { state: "open" } | { state: "away"; since: number; reason: string };

export interface Listeners {
  hello: (hello: Hello) => void;
  link: (link: Link) => void;
  message: (message: { type: string; [more: string]: unknown }) => void;
  /** The server no longer knows this browser. */
  denied: () => void;
}

export class Stream {
  link: Link = { state: "connecting" };
  /** Characters received; tests use it to measure what watching costs. */
  received = 0;
  private socket: WebSocket | undefined;
  private next = 1;
  private readonly subscriptions = new Map<number, Subscription>();
  private wait = FIRST_WAIT;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** When the last message came, or else when connecting began; ms of `performance.now()`. */
  private heard = 0;
  /** The server's clock less `performance.now()`, ms; NaN before the first message. */
  private offset = NaN;
  private sendQueue: string[] = [];
  private draining = false;

  constructor(private readonly listeners: Listeners) {
    setInterval(() => this.watch(), 1000);
    addEventListener("online", () => this.retryNow());
    addEventListener("offline", () => this.socket && this.away(this.socket, "offline"));
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && this.link.state === "away") this.retryNow();
    });
  }

  /** The time of the server in s since 1970; it does not depend on the clock of the browser. */
  now(): number {
    const offset = Number.isNaN(this.offset) ? Date.now() - performance.now() : this.offset;
    return (performance.now() + offset) / 1000;
  }

  /** How far the clock of the browser is ahead of the server's, s. */
  skew(): number {
    return Number.isNaN(this.offset) ? 0 : Date.now() / 1000 - this.now();
  }

  connect(): void {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/v1/stream`);
    this.socket = socket;
    this.heard = performance.now();
    socket.onmessage = (event) => this.take(socket, String(event.data));
    socket.onclose = (event) => this.away(socket, event.reason || String(event.code));
  }

  subscribe(
    request: Request,
    take: Subscription["take"],
    end: Subscription["end"] = () => {},
  ): () => void {
    const id = this.next++;
    const subscription = { id, request, take, end, fields: [] as string[] };
    this.subscriptions.set(id, subscription);
    if (this.link.state === "open") this.tell({ op: "subscribe", id, ...request });
    return () => {
      if (!this.subscriptions.delete(id)) return;
      if (this.link.state === "open") this.tell({ op: "unsubscribe", id });
    };
  }

  private tell(message: unknown): void {
    this.sendQueue.push(JSON.stringify(message));
    if (!this.draining) void this.drain();
  }

  /** Sends what waits, in batches below the server's limit of messages a second. */
  private async drain(): Promise<void> {
    this.draining = true;
    while (this.sendQueue.length) {
      for (const text of this.sendQueue.splice(0, 20)) {
        if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(text);
      }
      if (this.sendQueue.length) await new Promise((done) => setTimeout(done, 600));
    }
    this.draining = false;
  }

  private take(socket: WebSocket, text: string): void {
    if (socket !== this.socket) return;
    this.heard = performance.now();
    this.received += text.length;
    const message = JSON.parse(text) as { type: string; [more: string]: unknown };
    if (typeof message["now_ms"] === "number") this.synchronise(message["now_ms"]);
    switch (message.type) {
      case "hello":
        this.wait = FIRST_WAIT;
        this.link = { state: "open" };
        this.listeners.hello(message as unknown as Hello);
        this.sendQueue = [];
        for (const { id, request } of this.subscriptions.values()) {
          this.tell({ op: "subscribe", id, ...request });
        }
        this.listeners.link(this.link);
        break;
      case "subscribed": {
        const subscription = this.subscriptions.get(message["id"] as number);
        if (subscription) subscription.fields = (message["fields"] as string[]) ?? [];
        break;
      }
      case "refused":
      case "gone": {
        const subscription = this.subscriptions.get(message["id"] as number);
        if (!subscription) break;
        this.subscriptions.delete(subscription.id);
        subscription.end(String(message["message"] ?? message.type));
        break;
      }
      case "frame":
        for (const part of message["parts"] as Part[]) {
          const subscription = this.subscriptions.get(part.id);
          if (!subscription) continue;
          subscription.take(part, (part["fields"] as string[]) ?? subscription.fields);
          if (part["gone"] !== true) continue;
          this.subscriptions.delete(part.id);
          subscription.end(words.gone);
        }
        break;
    }
    this.listeners.message(message);
  }

  /** Keeps the largest offset between the clocks, which is that of the fastest message. */
  private synchronise(nowMs: number): void {
    const offset = nowMs - performance.now();
    if (Number.isNaN(this.offset) || offset > this.offset || this.offset - offset > 2000)
      this.offset = offset;
    // Clocks drift apart slowly, so an old largest offset must not last.
    else this.offset -= (this.offset - offset) * 0.002;
  }

  /** Reopens a connection on which nothing arrives. */
  private watch(): void {
    const open = this.link.state === "open" && this.subscriptions.size > 0;
    if (open && performance.now() - this.heard > SILENCE && this.socket)
      this.away(this.socket, "silent");
    if (
      this.link.state === "connecting" &&
      performance.now() - this.heard > 2 * SILENCE &&
      this.socket
    ) {
      this.away(this.socket, "silent");
    }
  }

  private away(socket: WebSocket, reason: string): void {
    if (socket !== this.socket) return;
    this.socket = undefined;
    socket.onclose = null;
    socket.close();
    const since = this.link.state === "away" ? this.link.since : this.now();
    this.link = { state: "away", since, reason };
    this.listeners.link(this.link);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.again(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LAST_WAIT);
  }

  private retryNow(): void {
    this.wait = FIRST_WAIT;
    clearTimeout(this.timer);
    if (!this.socket) void this.again();
  }

  /** Connects again. A WebSocket does not say why it was refused, so a request asks first. */
  private async again(): Promise<void> {
    try {
      const response = await fetch("/v1/page", { cache: "no-store" });
      if (response.status === 401) {
        this.listeners.denied();
        return;
      }
      this.connect();
    } catch {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => void this.again(), this.wait * (0.75 + Math.random() / 2));
      this.wait = Math.min(this.wait * 2, LAST_WAIT);
    }
  }
}

/** The pause before the first new attempt, and the longest pause, ms. */
const FIRST_WAIT = 500;
const LAST_WAIT = 10_000;
/** A subscribed connection without a message for this time is broken, ms. */
const SILENCE = 5000;
