// The part of the stand-in that answers about studies: a checker that knows one mistake,
// simulations that end at once or stop half-way, queues whose lengths swing, and curves of made-up
// schedulers.

const TEXT = `name = "two-hosts"
duration = "10s"

[[node]]
name = "left"
[[node]]
name = "right"

[[link]]
name = "bottleneck"
between = ["left", "right"]
spec = "bw 10Mbit/s delay 10ms"

[[traffic]]
name = "video"
from = "left"
to = "right"
kind = "cbr"
rate = "8Mbit/s"
`;

const TABLES = `two-hosts: 10s, seed 1

flow   kind  goodput      delay mean  p50      p99      sent   lost
video  cbr   7.99 Mbit/s  11.1 ms     11.1 ms  11.1 ms  8,333  0
`;

export class StudiesStandIn {
  /** The reason why studies are not available; undefined if they are. */
  why = undefined;
  /** Whether new studies stop half-way instead of ending at once. */
  hold = false;
  studies = [];

  constructor(evil, now) {
    this.evil = evil;
    this.now = now;
    this.add("done");
    this.add("failed");
  }

  add(state) {
    const number = this.studies.length + 1;
    const done = state === "done";
    this.studies.push({
      number,
      name: `two-hosts${this.evil}`,
      state,
      part: done ? 1 : 0.42,
      events: 123_456,
      finished: done ? 1 : 0,
      runs: 1,
      seconds: 1.3,
      error:
        state === "failed"
          ? "it needed more than 768 MiB of memory; shorten it, or use `weir sim`"
          : null,
      tables: done ? TABLES : null,
      comparable: true,
    });
    return number;
  }

  /** Answers a request, if it is one about studies. */
  answer(request, pathname, body, json, response) {
    const { method } = request;
    if (pathname === "/v1/studies" && method === "GET") {
      if (this.why)
        return json(200, { available: false, why: this.why, examples: [], studies: [] });
      const limits = {
        text_bytes: 262_144,
        runs: 200,
        processor_s: 300,
        memory_bytes: 805_306_368,
        result_bytes: 8_388_608,
        kept: 8,
      };
      return json(200, {
        available: true,
        why: null,
        limits,
        examples: [
          { name: "two-hosts", text: TEXT },
          { name: "other", text: TEXT.replace("two-hosts", "other") },
        ],
        studies: this.studies,
      });
    }
    if (pathname === "/v1/studies" && method === "POST") {
      if (this.studies.some((s) => s.state === "running"))
        return json(409, {
          error: "study 3 still runs, and there is one at a time; wait for its end, or end it",
        });
      this.started = body;
      return json(202, { number: this.add(this.hold ? "running" : "done") });
    }
    if (pathname === "/v1/studies/check") {
      const lines = body.text.split("\n");
      const line = lines.findIndex((text) => text.includes("bww"));
      const diagnostics =
        line < 0
          ? []
          : [
              {
                severity: "error",
                code: "unknown-word",
                message: "`bww` is no word of a link",
                line: line + 1,
                text: lines[line],
                start: lines[line].indexOf("bww"),
                end: lines[line].indexOf("bww") + 3,
                label: "not a word",
                help: ["did you mean `bw`?"],
              },
            ];
      return json(200, {
        summary: line < 0 ? "two-hosts for 10s; seed 1, 1 run\n" : null,
        name: "two-hosts",
        runs: 1,
        refusal: null,
        diagnostics,
      });
    }
    if (pathname === "/v1/studies/compare") {
      return json(200, {
        sides: ["two-hosts (sim, 1 run)", "two-hosts (sim, 1 run)"],
        blocks: [
          {
            name: `flow video${this.evil}`,
            rows: [
              [
                "goodput",
                "7.99 Mbit/s",
                "6.10 Mbit/s",
                "-1.89 Mbit/s",
                "-23.7 %",
                "significant, p < 0.001",
              ],
              ["delay mean", "11.1 ms", "11.1 ms", "0", "", "equal"],
            ],
          },
        ],
        only_left: [],
        only_right: ["flow calls"],
        remark: "p: Welch's test over twentieths of single runs.\n",
      });
    }
    if (pathname === "/v1/kernel")
      return json(200, { devices: ["lo", `eth0${this.evil}`.slice(0, 15), "eth1"], more: 0 });
    if (pathname === "/v1/kernel/queues") {
      if (this.why) return json(501, { error: this.why });
      this.kernelAsked = (this.kernelAsked ?? 0) + 1;
      const { searchParams } = new URL(request.url, "http://x");
      return json(200, this.kernel(searchParams.get("device"), Number(searchParams.get("after"))));
    }
    if (pathname === "/v1/curves" && method === "GET") {
      const names = ["fifo", "drr", "wfq", "wf2q+", "qfq+", "fq_codel", "strict", "htb"];
      return json(200, {
        algorithms: names.map((name) => ({ name, summary: `${name}, made up` })),
        limits: { algorithms: 6, flows: 16, packets: 5000 },
      });
    }
    if (pathname === "/v1/curves") {
      if (body.algorithms.length > 6) return json(500, { error: "choose 1 to 6 schedulers" });
      this.curvesAsked = body;
      return json(200, this.curves(body));
    }
    const one = /^\/v1\/studies\/(\d+)(\/report)?$/.exec(pathname);
    if (one && method === "DELETE") {
      const study = this.studies.find((s) => s.number === Number(one[1]));
      if (study?.state === "running") study.state = "cancelled";
      else this.studies = this.studies.filter((s) => s !== study);
      response.writeHead(204);
      return response.end();
    }
    if (one?.[2]) {
      response.writeHead(200, { "Content-Type": "text/html" });
      return response.end("<!doctype html><title>report</title>");
    }
    return undefined;
  }

  /** The points of two queues whose lengths swing: the root of a device, and a queue below it. */
  kernel(device, after) {
    const newest = Math.floor(this.now() / 100);
    const numbers = Array.from(
      { length: Math.min(50, after ? newest - after : 50) },
      (_, i) => newest - i,
    ).reverse();
    const queue = (id, label, root, n) => {
      const mean = Math.max(0, 20 + 18 * Math.sin(n / 9 + id));
      return {
        id,
        label: `${device} ${label}`,
        root,
        packets_min: Math.floor(mean * 0.6),
        packets_mean: mean,
        packets_max: Math.ceil(mean * 1.3),
        bytes_mean: mean * 1500,
        bytes_max: Math.ceil(mean * 1.3) * 1500,
        sent: 80,
        drops: mean > 36 ? 3 : 0,
      };
    };
    const points = numbers.map((n) => ({
      number: n,
      t_ms: n * 100,
      span_ms: 100,
      queues: [queue(1, "tbf 8001:", true, n), queue(2, "fq_codel 10:", false, n)],
    }));
    return {
      method: "netlink",
      rate: 100,
      remarks: [
        "read over netlink, since the kernel does not let this process run BPF programs; root may",
      ],
      ended: null,
      points,
    };
  }

  curves({ algorithms, flows, packets }) {
    const parsed = flows.split(",").map((text) => ({
      weight: Number(/w(\d+)/.exec(text)[1]),
      lengths: text.split(":")[2],
      class: 0,
    }));
    const total = parsed.reduce((sum, flow) => sum + flow.weight, 0);
    const end = packets * 1500;
    const times = Array.from({ length: 241 }, (_, i) => Math.round((end * i) / 240));
    const share = (flow) => times.map((t) => Math.round((t * parsed[flow].weight) / total));
    const fluid = parsed.map((_, flow) => share(flow));
    const all = algorithms.map((name, a) => ({
      name,
      jain: 1,
      served: fluid.map((curve, flow) =>
        curve.map((bytes, i) =>
          Math.max(0, Math.round(bytes + 1500 * (a + 0.5) * Math.sin(i / (4 + a) + flow))),
        ),
      ),
      classes: parsed.map(() => ({
        bwfi_bytes: 1500 * (a + 1),
        bound_bytes: a ? 3000 * a : null,
        lag_bytes: 900 * a,
        lead_bytes: 700 * a,
        delay_bytes: 9000,
      })),
    }));
    return { times, fluid, flows: parsed, algorithms: all };
  }
}
