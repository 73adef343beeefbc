// The part of the stand-in that answers about studies: a checker that knows one mistake, and
// simulations that pass at once or stay in the middle.

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
  /** Why there are no studies. */
  why = undefined;
  /** Whether new studies stay in the middle. */
  hold = false;
  studies = [];

  constructor(evil) {
    this.evil = evil;
    this.add("done");
    this.add("failed");
  }

  add(state) {
    const number = this.studies.length + 1;
    const done = state === "done";
    this.studies.push({
      number, name: `two-hosts${this.evil}`, state, part: done ? 1 : 0.42, events: 123_456, finished: done ? 1 : 0, runs: 1, seconds: 1.3,
      error: state === "failed" ? "it needed more than 768 MiB of memory; shorten it, or use `weir sim`" : null,
      tables: done ? TABLES : null, comparable: true,
    });
    return number;
  }

  /** Answers a request, if it is one about studies. */
  answer(request, pathname, body, json, response) {
    const { method } = request;
    if (pathname === "/v1/studies" && method === "GET") {
      if (this.why) return json(200, { available: false, why: this.why, examples: [], studies: [] });
      const limits = { text_bytes: 262_144, runs: 200, processor_s: 300, memory_bytes: 805_306_368, result_bytes: 8_388_608, kept: 8 };
      return json(200, { available: true, why: null, limits, examples: [{ name: "two-hosts", text: TEXT }, { name: "other", text: TEXT.replace("two-hosts", "other") }], studies: this.studies });
    }
    if (pathname === "/v1/studies" && method === "POST") {
      if (this.studies.some((s) => s.state === "running")) return json(409, { error: "study 3 still runs, and there is one at a time; wait for its end, or end it" });
      this.started = body;
      return json(202, { number: this.add(this.hold ? "running" : "done") });
    }
    if (pathname === "/v1/studies/check") {
      const lines = body.text.split("\n");
      const line = lines.findIndex((text) => text.includes("bww"));
      const diagnostics = line < 0 ? [] : [{ severity: "error", code: "unknown-word", message: "`bww` is no word of a link", line: line + 1, text: lines[line], start: lines[line].indexOf("bww"), end: lines[line].indexOf("bww") + 3, label: "not a word", help: ["did you mean `bw`?"] }];
      return json(200, { summary: line < 0 ? "two-hosts for 10s; seed 1, 1 run\n" : null, name: "two-hosts", runs: 1, refusal: null, diagnostics });
    }
    if (pathname === "/v1/studies/compare") {
      return json(200, {
        sides: ["two-hosts (sim, 1 run)", "two-hosts (sim, 1 run)"],
        blocks: [{ name: `flow video${this.evil}`, rows: [["goodput", "7.99 Mbit/s", "6.10 Mbit/s", "-1.89 Mbit/s", "-23.7 %", "significant, p < 0.001"], ["delay mean", "11.1 ms", "11.1 ms", "0", "", "equal"]] }],
        only_left: [], only_right: ["flow calls"], remark: "p: Welch's test over twentieths of single runs.\n",
      });
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
}
