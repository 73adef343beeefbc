// A stand-in for the server, for tests of the page alone: made-up values that move, names with
// markup, a clock that is wrong, a connection that breaks. The tests with the real server are in
// live.mjs, live-parts.mjs, access.mjs and studies.mjs.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { StudiesStandIn } from "./stand-in-studies.mjs";

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export const TOKEN = "0123456789abcdef";

/** A number from 0 to 1 that depends on its arguments alone. */
function noise(a, b) {
  const x = Math.sin(a * 127.1 + b * 311.7) * 43758.5453;
  return x - Math.floor(x);
}

/** Imitates the server of a daemon with a bridge, or of a session with two links. */
export class StandIn {
  /** Milliseconds by which the clock of the server is ahead of the browser's. */
  skew = 0;
  /** The time of the server's restart, ms. The server knows nothing from before this time. */
  since = -Infinity;
  /** The number of links of a session in addition to `up` and `down`. */
  links = 0;
  /** The number of requests for /v1/page, which a page repeats after it has lost its stream. */
  asks = 0;
  pageVersion = "1";
  access = "full";
  /** The subscriptions that wait for tell(), each with its socket. */
  asked = new Map();
  sockets = new Set();
  pipes = 10_000;
  /** The plan that was started. */
  started = undefined;
  reports = [];

  /** `still` is a time in ms at which the clock stops. Only tell() then sends data. */
  constructor({ kind = "serve", folder, markup = false, still } = {}) {
    this.kind = kind;
    this.still = still;
    const change = (number, ago, what, by) => ({
      number,
      t_ms: this.now() - ago,
      what,
      undoes: null,
      by,
    });
    this.changes = [
      change(1, 70_000, "pipe 2 became bw 20Mbit/s delay 15ms queue 100", "command"),
      change(2, 24_000, "pipe 1 became bw 8Mbit/s delay 20ms queue 60", "page"),
    ];
    this.folder = folder;
    this.evil = markup ? `<img src=x onerror="document.title='broken'"><b>bold</b>` : "";
    this.studies = new StudiesStandIn(this.evil, () => this.now());
    this.server = createServer((request, response) => this.answer(request, response));
    this.server.on("upgrade", (request, socket) => this.upgrade(request, socket));
  }

  now() {
    return (this.still ?? Date.now()) + this.skew;
  }

  async listen(port = 0) {
    await new Promise((done) => this.server.listen(port, "127.0.0.1", done));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}`;
  }

  close() {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }

  /** Cuts all streams, as the end of a daemon does. */
  cut() {
    for (const socket of this.sockets) socket.destroy();
  }

  objects() {
    if (this.kind === "serve") {
      const lane = (from, to) => ({
        object: `lane:${from}-${to}`,
        kind: "lane",
        name: `${from}-${to}`,
        from,
        to,
        parent: null,
        spec: "",
        rate_bps: null,
        delay_ns: 0,
        masked: false,
      });
      const pipe = (n, spec, bw, delay, masked = false, aqm) => ({
        object: `pipe:${n}`,
        kind: "pipe",
        name: `pipe ${n}${n === 3 ? this.evil : ""}`,
        from: null,
        to: null,
        parent: null,
        spec,
        rate_bps: bw,
        delay_ns: delay * 1e6,
        masked,
        aqm,
      });
      return [
        lane("eth1", "eth2"),
        lane("eth2", "eth1"),
        pipe(1, "bw 8Mbit/s delay 20ms queue 60", 8e6, 20),
        pipe(2, "bw 20Mbit/s delay 15ms queue 100 codel target 5ms", 20e6, 15, false, {
          algorithm: "codel",
          settings: {},
        }),
        pipe(3, "bw 2Mbit/s delay 40ms loss 1%", 2e6, 40),
        pipe(7, "bw 20Mbit/s queue 100 mask dst-ip 0xffffffff", 20e6, 0, true),
        {
          object: "sched:5",
          kind: "sched",
          name: "sched 5",
          spec: "sched 5 config type wf2q+ bw 40Mbit/s",
          algorithm: "wf2q+",
          parent: null,
          rate_bps: 40e6,
          delay_ns: 0,
          masked: false,
        },
        {
          object: "queue:1",
          kind: "queue",
          name: "queue 1",
          spec: "queue 1 config sched 5 weight 10",
          parent: "sched:5",
          weight: 10,
          rate_bps: null,
          delay_ns: 0,
          masked: false,
        },
        {
          object: "queue:2",
          kind: "queue",
          name: "queue 2",
          spec: "queue 2 config sched 5 weight 1",
          parent: "sched:5",
          weight: 1,
          rate_bps: null,
          delay_ns: 0,
          masked: false,
        },
      ];
    }
    const link = (name, from, to, spec, bw, delay) => ({
      object: `link:${name}`,
      kind: "link",
      name,
      from,
      to,
      whole: null,
      parent: null,
      spec,
      rate_bps: bw,
      delay_ns: delay * 1e6,
      masked: false,
    });
    return [
      link("up", `curl${this.evil}`, "network", "bw 256Kbit/s delay 20ms", 256e3, 20),
      link("down", "network", `curl${this.evil}`, "bw 4Mbit/s delay 20ms queue 50", 4e6, 20),
      ...Array.from({ length: this.links }, (_, i) =>
        link(
          `${this.evil}${i}`,
          `host${i}${this.evil}`,
          `"><svg onload=alert(${i})>`,
          `bw ${i + 1}Mbit/s`,
          (i + 1) * 1e6,
          0,
        ),
      ),
    ];
  }

  rules() {
    if (this.kind !== "serve") return [];
    const rule = (id, number, action, command) => ({
      id,
      number,
      set: 0,
      enabled: true,
      action,
      command,
      counters: {
        packets: 10_000 * id,
        bytes: 9_000_000 * id,
        last_match_s: Math.floor(this.now() / 1000),
      },
    });
    return [
      rule(1, 100, "pipe", "add 100 pipe 1 tcp from any to any 443 in recv eth1"),
      rule(2, 200, "pipe", "add 200 pipe 2 ip from 10.0.0.0/8 to any in recv eth2"),
      rule(3, 300, "pipe", "add 300 pipe 3 udp from any to any"),
      rule(4, 400, "pipe", "add 400 pipe 7 ip from any to 10.0.0.0/8 in recv eth1"),
      rule(5, 500, "queue", "add 500 queue 1 ip from any to 192.0.2.0/24"),
      rule(6, 600, "queue", "add 600 queue 2 ip from any to any"),
      rule(7, 65535, "allow", "add 65535 set 31 allow ip from any to any"),
    ];
  }

  /** The state of an object at a time. Most values of a direction or a scheduler are sums. */
  state(object, t) {
    const all = {
      "lane:eth1-eth2": ["pipe:1", "pipe:7", "queue:1"],
      "lane:eth2-eth1": ["pipe:2", "pipe:3", "queue:2"],
      "sched:5": ["queue:1", "queue:2"],
    }[object];
    if (all) {
      const parts = all.map((part) => this.state(part, t));
      const sum = (name) => parts.reduce((total, part) => total + part[name], 0);
      const lane = object.startsWith("lane");
      return {
        offered: sum("offered"),
        carried: sum("carried"),
        queue: sum("queue"),
        drops: sum("drops"),
        limit: lane ? 60e6 : 40e6,
        wait: lane ? 0 : Math.max(...parts.map((part) => part.wait)),
      };
    }
    const things = this.objects();
    const i = Math.max(
      0,
      things.findIndex((o) => o.object === object),
    );
    const limit = { "queue:1": 36e6, "queue:2": 4e6 }[object] ?? things[i]?.rate_bps ?? 60e6;
    const s = t / 1000;
    const load =
      0.78 + 0.33 * Math.sin(s / (7 + i) + i * 2) + 0.12 * (noise(Math.floor(s * 10), i) - 0.5);
    const offered = Math.max(0, load) * limit;
    const carried = Math.min(offered, limit);
    const full = Math.max(0, load - 0.93) / 0.18;
    const queue = Math.min(60, 60 * full + 3 * noise(Math.floor(s * 10), i + 9));
    return {
      offered,
      carried,
      queue,
      drops: full > 0.9 ? (offered - carried) / 12000 : 0,
      limit,
      wait: (queue * 12000 * 1e9) / limit,
    };
  }

  point(object, t, span) {
    const v = this.state(object, t);
    const late = !/^(pipe|sched|queue)/.test(object);
    const drops = Math.round((v.drops * span) / 1000);
    return [
      t,
      span,
      v.offered,
      v.offered * 1.05,
      v.carried,
      v.carried * 1.02,
      v.offered / 9600,
      v.carried / 9600,
      Math.floor(v.queue * 0.6),
      v.queue * 0.8,
      Math.ceil(v.queue),
      null,
      null,
      null,
      v.wait * 0.7,
      v.wait * 0.97,
      v.wait,
      v.wait * 0.7 + 20e6,
      v.wait + 20e6,
      v.wait + 20.2e6,
      late ? 7000 : null,
      late ? 30_000 + 20_000 * noise(t, 4) : null,
      late ? 52_000 : null,
      drops,
      object === "pipe:2" ? drops : 0,
      drops
        ? {
            drops: { queue_full: Math.ceil(drops * 0.7), loss_on_link: Math.floor(drops * 0.3) },
            marks: object === "pipe:2" ? { target: drops } : {},
          }
        : null,
      v.limit === 60e6 ? null : v.limit,
    ];
  }

  page() {
    return {
      version: "0.1.0",
      page_version: this.pageVersion,
      access: this.access,
      name: this.kind === "serve" ? "serve" : "curl",
      kind: this.kind,
      program: this.kind === "serve" ? "eth1,eth2" : "curl -O https://example.org/file",
      pid: 4711,
      since_ms: this.now() - 3_725_000,
      now_ms: this.now(),
      language: this.kind === "serve" ? "commands" : "links",
      features: [
        "stream",
        "change",
        "undo",
        "changes",
        "plan",
        "trace",
        "report",
        "studies",
        ...(this.kind === "serve" ? ["top", "rules"] : []),
      ],
      limits: {},
    };
  }

  async answer(request, response) {
    const json = (status, body) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    const url = new URL(request.url, "http://x");
    const { pathname } = url;
    if (!pathname.startsWith("/v1/")) {
      const name = pathname === "/" ? "index.html" : pathname.slice(1);
      if (!readdirSync(this.folder).includes(name)) return json(404, { message: "not here" });
      response.writeHead(200, {
        "Content-Type": TYPES[name.split(".").pop()] ?? "text/plain",
        "Content-Security-Policy": CSP,
      });
      return response.end(readFileSync(join(this.folder, name)));
    }
    let text = "";
    for await (const part of request) text += part;
    const body = text ? JSON.parse(text) : {};
    if (pathname === "/v1/login") {
      if (body.token !== TOKEN) return json(401, { message: "this token is not known" });
      response.writeHead(204, {
        "Set-Cookie": `weir-${this.port}=x; HttpOnly; SameSite=Strict; Path=/`,
      });
      return response.end();
    }
    if (!request.headers.cookie?.includes(`weir-${this.port}=x`))
      return json(401, { message: "sign in" });
    if (
      this.studies.answer(request, pathname, body, json, response) !== undefined ||
      response.headersSent
    )
      return undefined;
    switch (pathname) {
      case "/v1/page":
        this.asks++;
        // A network that is away does not answer, and neither does a daemon that has ended.
        return this.refuse && this.asks > 1 ? request.socket.destroy() : json(200, this.page());
      case "/v1/objects":
        return json(200, {
          revision: 12,
          total: this.kind === "serve" ? this.objects().length : 2,
          objects: this.objects(),
        });
      case "/v1/rules":
        return json(200, this.rules());
      case "/v1/changes":
        return json(200, { changes: this.changes, more: 0 });
      case "/v1/undo":
        return this.applied(json, `undid ${body.change}`, body.change);
      case "/v1/plan":
        return this.plan(request.method, body, json);
      case "/v1/trace":
        return this.trace(url.searchParams, json);
      case "/v1/report": {
        this.reports.push(Object.fromEntries(url.searchParams));
        response.writeHead(200, {
          "Content-Type": "text/html",
          "Content-Disposition": 'attachment; filename="weir-serve-1.html"',
        });
        return response.end("<!doctype html><title>a report</title>");
      }
      case "/v1/change": {
        const at = /bitss|wrong/.exec(body.words);
        if (at) {
          return json(422, {
            applied: false,
            change: null,
            revision: 12,
            links: [],
            diagnostics: [
              {
                severity: "error",
                code: "unknown-unit",
                message: `"${at[0]}" is no unit of rates`,
                line: 1,
                text: body.words,
                start: at.index,
                end: at.index + at[0].length,
                label: "expected bit/s, Byte/s or a prefix",
                help: ["for example 4Mbit/s"],
              },
            ],
            rendered: "",
            notices: [],
            commands: [],
          });
        }
        if (body.check_only)
          return json(200, {
            applied: false,
            change: null,
            revision: 12,
            links: body.link ? [{ name: body.link, spec: body.words }] : [],
            diagnostics: [],
            notices: [],
            commands: body.link ? [] : [body.words],
          });
        return this.applied(json, body.words, null);
      }
      default:
        return json(404, { message: "there is no such resource" });
    }
  }

  applied(json, what, undoes) {
    const change = { number: this.changes.length + 1, t_ms: this.now(), what, undoes, by: "page" };
    this.changes.push(change);
    this.broadcast({ type: "change", change });
    json(200, {
      applied: true,
      change: change.number,
      revision: 13,
      links: [],
      diagnostics: [],
      notices: [],
      commands: [],
    });
  }

  /** Checks, starts, stops and shows a plan. Steps are done when their time has come. */
  plan(method, body, json) {
    const none = { text: "", steps: [], state: "none", began_ms: null, diagnostics: [] };
    if (method === "DELETE" && this.started?.state === "running") this.started.state = "stopped";
    if (method === "POST") {
      const lines = body.text
        .split("\n")
        .map((text, i) => [text.trim(), i + 1])
        .filter(([text]) => text);
      const bad = lines.find(([text]) => /bitss|wrong/.test(text) || !/^\d+(ms|s|min) /.test(text));
      if (bad) {
        const at = /bitss|wrong/.exec(bad[0]);
        const diagnostics = at
          ? [
              {
                severity: "error",
                code: "unknown-unit",
                message: `"${at[0]}" is no unit of rates`,
                line: bad[1],
                text: bad[0],
                start: at.index,
                end: at.index + at[0].length,
                label: "",
                help: [],
              },
            ]
          : [];
        return json(422, { error: "a time needs its unit", line: bad[1], diagnostics });
      }
      const steps = lines.map(([text, line]) => {
        const [, n, unit, link, action] = /^(\d+)(ms|s|min) (?:(up|down) )?(.*)$/.exec(text);
        return {
          at_ms: n * { ms: 1, s: 1000, min: 60_000 }[unit],
          link: link ?? null,
          action,
          line,
          done_ms: null,
          error: null,
        };
      });
      steps.sort((a, b) => a.at_ms - b.at_ms);
      const plan = { ...none, text: body.text, steps };
      if (body.check_only) return json(200, plan);
      if (this.started?.state === "running")
        return json(409, { error: "a plan runs already; stop it first" });
      this.started = { ...plan, state: "running", began_ms: this.now() };
    }
    const plan = this.started;
    if (plan?.state === "running") {
      const at = this.now() - plan.began_ms;
      for (const step of plan.steps) if (step.at_ms <= at) step.done_ms ??= step.at_ms + 1;
      if (plan.steps.every((step) => step.done_ms !== null)) plan.state = "done";
    }
    return json(200, plan ?? none);
  }

  trace(query, json) {
    const packet = query.get("packet");
    const at = /wrong|tpc/.exec(packet);
    if (at)
      return json(422, {
        error: `"${at[0]}" is no protocol; a packet begins with tcp, udp, icmp`,
        start: at.index,
        end: at.index + at[0].length,
      });
    const rules = this.rules();
    const told = (i, matched, what) => ({
      number: rules[i].number,
      id: rules[i].id,
      command: rules[i].command + this.evil,
      matched,
      what,
    });
    return json(200, {
      packet,
      lane: query.get("lane") ?? "eth1-eth2",
      unlisted: 12_000,
      end: "sent",
      what: "It goes through pipe 7, then queue 1.",
      legs: [
        {
          place: "in recv eth1",
          rules: [
            told(0, false, "not: dst-port 443"),
            told(1, false, "not: recv eth2"),
            ...Array.from({ length: 9 }, () => told(2, false, "not: proto udp")),
            told(3, true, "enters pipe 7"),
          ],
          enters: [
            {
              object: "pipe:7",
              name: "pipe 7",
              spec: "pipe 7 config bw 20Mbit/s queue 100 mask dst-ip 0xffffffff",
              instance: `* → 10.0.3.7${this.evil}`,
            },
          ],
        },
        {
          place: "in recv eth1, after pipe 7",
          rules: [told(4, true, "enters queue 1")],
          enters: [
            {
              object: "queue:1",
              name: "queue 1",
              spec: "queue 1 config sched 5 weight 10",
              instance: null,
            },
            {
              object: "sched:5",
              name: "sched 5",
              spec: "sched 5 config type wf2q+ bw 40Mbit/s",
              instance: null,
            },
          ],
        },
      ],
    });
  }

  broadcast(message) {
    for (const socket of this.sockets) send(socket, message);
  }

  upgrade(request, socket) {
    if (this.refuse) return socket.destroy();
    const key = createHash("sha1")
      .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n\r\n`,
    );
    this.sockets.add(socket);
    const timers = new Map();
    const end = () => {
      this.sockets.delete(socket);
      for (const timer of timers.values()) clearInterval(timer);
    };
    socket.on("close", end);
    socket.on("error", end);
    socket.on("data", (data) => {
      for (const text of frames(data)) {
        const message = JSON.parse(text);
        clearInterval(timers.get(message.id));
        this.asked.delete(`${socket.remotePort} ${message.id}`);
        if (message.op === "subscribe") this.subscribe(socket, message, timers);
      }
    });
    send(socket, {
      type: "hello",
      now_ms: this.now(),
      version: "0.1.0",
      page_version: this.pageVersion,
      revision: 12,
      access: this.access,
      name: "serve",
    });
  }

  subscribe(socket, message, timers) {
    const { id, what, object } = message;
    const period = Math.max(what === "top" || what === "rules" ? 1000 : 33, message.period_ms);
    const frame = (part) => {
      if (!this.silent)
        send(socket, { type: "frame", now_ms: this.now(), revision: 12, parts: [{ id, ...part }] });
    };
    let fields = [];
    let part = () => ({});
    if (what === "object") {
      fields = [
        "t_ms",
        "span_ms",
        "in_bps",
        "in_bps_max",
        "out_bps",
        "out_bps_max",
        "in_pps",
        "out_pps",
        "queue_packets_min",
        "queue_packets_mean",
        "queue_packets_max",
        "queue_bytes_min",
        "queue_bytes_mean",
        "queue_bytes_max",
        "wait_p50_ns",
        "wait_p99_ns",
        "wait_max_ns",
        "total_p50_ns",
        "total_p99_ns",
        "total_max_ns",
        "late_p50_ns",
        "late_p99_ns",
        "late_max_ns",
        "drops",
        "marks",
        "reasons",
        "rate_bps",
      ];
      // As in the daemon, a point that is late covers all the time since the previous one.
      let last;
      part = () => {
        const t = this.now();
        const span = last === undefined || this.still !== undefined ? period : t - last;
        last = t;
        return { points: [this.point(object, t, Math.max(span, 1))] };
      };
    } else if (what === "overview") {
      part = () => this.overview();
    } else if (what === "rules") {
      fields = ["id", "number", "packets", "bytes", "pps", "bps", "last_match_s"];
      part = () => ({
        total: 7,
        rows: this.rules().map((r, i) =>
          this.rule(r, ["pipe:1", "pipe:2", "pipe:3", "pipe:7", "queue:1", "queue:2"][i]),
        ),
      });
    } else {
      fields = [
        "key",
        "object",
        "in_bps",
        "out_bps",
        "queue_packets",
        "queue_bytes",
        "wait_ns",
        "drops",
        "spark",
      ];
      part = () => this.top(message);
    }
    send(socket, { type: "subscribed", id, period_ms: period, fields });
    const history = () => {
      const points = [];
      const begin = Math.max(this.now() - Math.min(180, message.history_s) * 1000, this.since);
      for (let t = begin; t < this.now(); t += period) points.push(this.point(object, t, period));
      return { history: true, points };
    };
    const past = what === "object" && message.history_s ? history : undefined;
    if (this.still !== undefined) {
      this.asked.set(`${socket.remotePort} ${id}`, { socket, id, what, period, part, past });
      return;
    }
    if (past) frame(past());
    frame(part());
    timers.set(
      id,
      setInterval(() => frame(part()), period),
    );
  }

  /**
   * Sends the data of the last minute to all subscriptions, in an order that depends on the time
   * alone. The overview comes last in each message, since it draws the data of the other
   * subscriptions. Returns the number of messages.
   */
  tell() {
    const present = this.still;
    const all = [...this.asked.values()].sort(
      (a, b) => (a.what === "overview") - (b.what === "overview") || a.id - b.id,
    );
    const told = (socket, parts) =>
      parts.length && send(socket, { type: "frame", now_ms: this.now(), revision: 12, parts });
    let messages = 0;
    for (const socket of this.sockets) {
      const own = all.filter((one) => one.socket === socket);
      if (
        told(
          socket,
          own.filter((one) => one.past).map(({ id, past }) => ({ id, ...past() })),
        )
      )
        messages++;
      for (let ago = PAST; ago >= 0; ago -= 500) {
        this.still = present - ago;
        // The plots of an object got their past from the first message.
        const due = own.filter((one) =>
          one.what === "object" ? ago === 0 : ago % one.period === 0,
        );
        if (
          told(
            socket,
            due.map(({ id, part }) => ({ id, ...part() })),
          )
        )
          messages++;
      }
    }
    return messages;
  }

  /** The counters of a rule that gives its packets to an object. */
  rule({ id, number }, object) {
    const rate = object ? this.state(object, this.now()).offered : 0;
    const packets = Math.round(((object ? 2e5 * (8 - id) : 900) * (this.now() % 1e8)) / 1e8);
    return [
      id,
      number,
      packets,
      0,
      rate / 9600,
      rate,
      Math.floor(this.now() / 1000) - (object ? 0 : 44),
    ];
  }

  overview() {
    const rows = this.objects().map((o) => {
      const v = this.state(o.object, this.now());
      return [
        o.object,
        v.offered,
        v.carried,
        Math.round(v.queue),
        Math.round(v.drops / 2),
        o.kind === "lane" ? null : v.wait,
        o.kind === "pipe" ? null : 31_000,
      ];
    });
    // A packet that leaves a pipe also leaves a direction: only directions and links are added up.
    const sum = (i) =>
      rows.reduce((total, row) => total + (/^(lane|link)/.test(row[0]) ? row[i] : 0), 0);
    return {
      health: {
        status: "ok",
        problems: [],
        late_p99_ns: 31_000 + 9000 * noise(this.now(), 1),
        late_max_ns: 52_000,
        realtime: true,
        workers: 1,
      },
      fields: [
        "object",
        "in_bps",
        "out_bps",
        "queue_packets",
        "drops",
        "wait_p99_ns",
        "late_p99_ns",
      ],
      rows,
      total: rows.length,
      totals: { in_bps: sum(1), out_bps: sum(2), drops: sum(4), queue_packets: sum(3) },
    };
  }

  top(message) {
    if (this.still === undefined) return this.sorted(message);
    // Many pictures show the same moments, and sorting ten thousand instances takes long.
    const { n, offset, search, sort } = message;
    const key = JSON.stringify([this.now(), n, offset, search, sort]);
    if (!MOMENTS.has(key)) MOMENTS.set(key, this.sorted(message));
    return MOMENTS.get(key);
  }

  sorted({ n, offset = 0, search, sort }) {
    const s = this.now() / 1000;
    const all = [];
    for (let i = 0; i < this.pipes; i++) {
      const key = `* → 10.0.${i >> 8}.${i & 255}`;
      if (search && !key.includes(search)) continue;
      // Most have about 1 Mbit/s, a few much more or less, one in nine has none. All rates swing.
      const spread = noise(i, 3) + noise(i, 4) + noise(i, 7) + noise(i, 8) - 2;
      const wanted =
        i % 9 === 4
          ? 0
          : 1.2e6 * Math.exp(2.4 * spread + 0.8 * Math.sin(s / 11) + 0.3 * Math.sin(s / 3 + i));
      all.push([i, 20e6 * (1 - Math.exp(-wanted / 20e6)), key]);
    }
    const queue = ([i]) => Math.floor(20 * noise(i, 5));
    all.sort((a, b) => (sort === "queue" && queue(b) - queue(a)) || b[1] - a[1]);
    const bins = new Array(40).fill(0);
    for (const [, rate] of all)
      bins[rate < 1 ? 0 : Math.min(39, Math.floor(Math.log2(rate)) + 1)]++;
    const rows = all
      .slice(offset, offset + n)
      .map(([i, rate, key]) => [
        key + this.evil,
        null,
        rate * 1.02,
        rate,
        Math.floor(20 * noise(i, 5)),
        1500 * Math.floor(20 * noise(i, 5)),
        9e6 * noise(i, 6),
        i % 37 === 0 ? 3 : 0,
        Array.from({ length: 30 }, (_, k) => rate * (0.8 + 0.2 * Math.sin((s + k) / 3 + i))),
      ]);
    return {
      total: this.pipes,
      matched: all.length,
      complete: true,
      rows,
      heat: { scale: "log2", unit: "bit/s", least: 0, bins },
    };
  }
}

/** The sorted answers for stopped clocks, by moment and query. */
const MOMENTS = new Map();
/** The length of the time that tell() covers, ms. */
const PAST = 66_000;

/** Sends a message as one text frame; returns whether the socket is open. */
function send(socket, message) {
  const payload = Buffer.from(JSON.stringify(message));
  const n = payload.length;
  const head =
    n < 126
      ? Buffer.from([0x81, n])
      : n < 65536
        ? Buffer.from([0x81, 126, n >> 8, n & 255])
        : Buffer.concat([
            Buffer.from([0x81, 127, 0, 0, 0, 0]),
            Buffer.from([(n >>> 24) & 255, (n >> 16) & 255, (n >> 8) & 255, n & 255]),
          ]);
  if (!socket.destroyed) socket.write(Buffer.concat([head, payload]));
  return !socket.destroyed;
}

/** The texts of the masked frames in a piece of the stream, which has only whole frames. */
function* frames(data) {
  let at = 0;
  while (at + 6 <= data.length) {
    const kind = data[at] & 15;
    let n = data[at + 1] & 127;
    at += 2;
    if (n === 126) {
      n = data.readUInt16BE(at);
      at += 2;
    }
    const mask = data.subarray(at, at + 4);
    at += 4;
    const text = Buffer.from(
      data.subarray(at, at + n).map((byte, i) => byte ^ mask[i % 4]),
    ).toString();
    at += n;
    if (kind === 1) yield text;
  }
}
