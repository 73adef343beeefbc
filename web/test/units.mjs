// Tests of the parts of the page that need no browser, and of the built files.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const WEB = dirname(dirname(fileURLToPath(import.meta.url)));

/** The exports of a module of the page. */
async function load(name) {
  const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  try {
    const out = join(folder, `${name}.mjs`);
    await build({
      entryPoints: [join(WEB, "src", `${name}.ts`)],
      bundle: true,
      format: "esm",
      outfile: out,
      logLevel: "error",
    });
    return await import(pathToFileURL(out).href);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const tests = {
  "the types of the page are correct": () => {
    execFileSync(join(WEB, "node_modules/.bin/tsc"), ["--noEmit"], { cwd: WEB, stdio: "pipe" });
  },

  "the built files are those of the source": () => {
    execFileSync("node", [join(WEB, "build.mjs"), "--check"], { cwd: WEB, stdio: "pipe" });
  },

  "numbers have three digits and a unit that stays": async () => {
    const { text, exact, Steady, elapsed } = await load("format");
    assert.equal(text(3_811_000, "bps"), "3.81 Mbit/s");
    assert.equal(text(999_600, "bps"), "1.00 Mbit/s");
    assert.equal(text(0, "bps"), "0 kbit/s");
    assert.equal(text(52_000, "ns"), "52.0 µs");
    assert.equal(text(NaN, "ns"), "–");
    assert.equal(text(1_234_567, "count"), "1,234,567");
    assert.equal(exact(4_000_000, "bps"), "4 Mbit/s");
    assert.equal(elapsed(3_725e9), "1 h 02 min");
    const steady = new Steady("bps");
    assert.deepEqual(steady.split(1_100_000), ["1.10", "Mbit/s"]);
    assert.deepEqual(
      steady.split(900_000),
      ["0.90", "Mbit/s"],
      "a value just below keeps the unit",
    );
    assert.deepEqual(steady.split(100_000), ["100", "kbit/s"]);
    assert.deepEqual(steady.split(0), ["0", "kbit/s"]);
  },

  "a series keeps peaks, gaps and its order": async () => {
    const { Series } = await load("series");
    const series = new Series(1, 200);
    for (let i = 0; i < 500; i++) series.push(i / 10, [i === 437 ? 1000 : 1]);
    series.push(3, [77]);
    assert.equal(series.last(), 49.9, "an older sample is ignored");
    const near = series.view(40, 50, 600);
    assert.ok(near.t.length >= 99 && near.t.length <= 102);
    assert.equal(Math.max(...near.high[0]), 1000);
    const far = series.view(0, 50, 600);
    assert.ok(far.t[0] < 1, "buckets reach back to the start");
    assert.equal(Math.max(...far.high[0]), 1000, "a peak survives in its bucket");
    assert.ok(Math.max(...far.mean[0]) < 1000);
    series.gap(50);
    series.push(55, [1]);
    const gap = series.view(49, 56, 600);
    assert.ok([...gap.mean[0]].some(Number.isNaN));
  },

  "decimation keeps the least and the most of each pixel": async () => {
    const { decimate } = await load("series");
    const n = 10_000;
    const t = Float64Array.from({ length: n }, (_, i) => i / 100);
    const v = Float64Array.from({ length: n }, (_, i) =>
      i === 5000 ? 9 : i === 7000 ? -9 : Math.sin(i),
    );
    v[2000] = NaN;
    const rows = { t, mean: [v], low: [v], high: [v] };
    const few = decimate(rows, 0, 100, 100);
    assert.ok(few.t.length <= 210, `${few.t.length} rows`);
    assert.equal(Math.max(...[...few.high[0]].filter((x) => !Number.isNaN(x))), 9);
    assert.equal(Math.min(...[...few.low[0]].filter((x) => !Number.isNaN(x))), -9);
    assert.ok([...few.mean[0]].some(Number.isNaN), "a gap stays");
    const moved = decimate(rows, 0.5, 100.5, 100);
    assert.deepEqual([...few.t], [...moved.t], "groups stay when the range moves");
  },

  "points of the server become channels": async () => {
    const { Samples, channel } = await load("samples");
    const samples = new Samples();
    const fields = [
      "t_ms",
      "span_ms",
      "in_bps",
      "in_bps_max",
      "queue_packets_min",
      "queue_packets_mean",
      "queue_packets_max",
      "drops",
      "reasons",
    ];
    samples.take(
      {
        id: 1,
        points: [
          [1000, 100, 5, 7, 1, 2, 3, 4, { drops: { queue_full: 3, denied: 1 } }],
          [1100, 100, 6, 6, 0, 0, 0, 0, null],
        ],
      },
      fields,
    );
    samples.take({ id: 1, points: [[9000, 100, 6, 6, 0, 0, 0, 0, null]] }, fields);
    const rows = samples.series.view(0, 10, 600);
    const at = channel("queue_packets");
    assert.deepEqual([rows.low[at][0], rows.mean[at][0], rows.high[at][0]], [1, 2, 3]);
    assert.equal(rows.high[channel("in_bps")][0], 7);
    assert.equal(rows.mean[channel("drops")][0], 40, "per second");
    assert.deepEqual(
      samples.reasons.map((r) => r.name),
      ["queue_full", "denied"],
    );
    assert.equal(rows.mean[samples.reasons[0].channel][0], 30);
    assert.ok(Number.isNaN(rows.mean[0][2]), "8 s without samples are a gap");
  },

  "points that are known already do not become the newest ones": async () => {
    const { Samples } = await load("samples");
    const samples = new Samples();
    const fields = ["t_ms", "span_ms", "in_bps"];
    samples.take(
      {
        id: 1,
        points: [
          [1000, 100, 5],
          [1100, 100, 6],
        ],
      },
      fields,
    );
    samples.take({ id: 1, history: true, points: [[1000, 100, 5]] }, fields);
    assert.equal(samples.newest["in_bps"], 6);
    samples.take({ id: 1, points: [[1200, 100, null]] }, fields);
    assert.equal(samples.newest["in_bps"], null);
  },

  "a range follows the present, stands still and zooms": async () => {
    const { Timeline } = await load("timeline");
    let now = 1000;
    const line = new Timeline(
      () => now,
      () => 0,
    );
    assert.deepEqual(line.range(), [940, 1000]);
    line.hold();
    now = 1010;
    assert.deepEqual(line.range(), [940, 1000]);
    line.show(950, 960);
    assert.deepEqual(line.range(), [950, 960]);
    line.zoom(0.5, 952);
    assert.deepEqual(line.range(), [951, 956]);
    line.pan(-1);
    assert.deepEqual(line.range(), [946, 951]);
    line.pan(1000);
    assert.ok(line.live, "a range that reaches the present follows it");
  },

  "words of the language are read and written": async () => {
    const { set, value, rate, rateWords, inWords, unmasked, ownPipe } = await load("spec");
    assert.equal(value("bw 4Mbit/s delay 20ms", "delay"), "20ms");
    assert.equal(set("bw 4Mbit/s delay 20ms", "bw", "8M"), "bw 8M delay 20ms");
    assert.equal(set("bw 4Mbit/s", "loss", "1%"), "bw 4Mbit/s loss 1%");
    assert.equal(set("bw 4Mbit/s delay 20ms", "bw", ""), "delay 20ms");
    assert.equal(
      unmasked("bw 4Mbit/s mask dst-ip 0xffffffff proto queue 50"),
      "bw 4Mbit/s queue 50",
    );
    const pipe = {
      object: "pipe:7",
      kind: "pipe",
      name: "pipe 7",
      spec: "bw 20Mbit/s queue 100 mask dst-ip 0xffffffff",
      rate_bps: 2e7,
    };
    const rules = [
      {
        number: 400,
        enabled: true,
        command: "add 400 pipe 7 ip from any to 10.0.0.0/8 in recv eth1",
      },
    ];
    assert.equal(
      ownPipe(pipe, "* → 10.0.3.7", rules, 8, 2),
      "pipe 8 config bw 40Mbit/s queue 100\nadd 399 pipe 8 ip from any to 10.0.3.7 in recv eth1",
    );
    assert.match(
      ownPipe(pipe, "10.0.0.1:80 → [2001:db8::1]:443 proto 6", rules, 8, 2),
      /from 10\.0\.0\.1 80 to 2001:db8::1 443 in/,
    );
    assert.equal(ownPipe(pipe, "port 80", rules, 8, 2), undefined);
    assert.equal(rate("4Mbit/s"), 4e6);
    assert.equal(rate("1KByte/s"), 8000);
    assert.equal(rate("fast"), undefined);
    assert.equal(rateWords(1_500_000), "1.5Mbit/s");
    assert.equal(
      inWords({
        object: "pipe:1",
        kind: "pipe",
        name: "pipe 1",
        spec: "bw 100Mbit/s delay 20ms queue 50",
        rate_bps: 1e8,
        delay_ns: 2e7,
      }),
      "100 Mbit/s, 20 ms delay, queue of 50 packets",
    );
  },

  "a Parquet file is what others read": async () => {
    const { parquet } = await load("parquet");
    const bytes = parquet([
      { name: "time_s", values: [1, 2, 3] },
      { name: "carried (bit/s)", values: [1e6, NaN, 3e6] },
    ]);
    const text = Buffer.from(bytes).toString("latin1");
    assert.ok(text.startsWith("PAR1") && text.endsWith("PAR1"));
    const readers = [
      "import polars; t = polars.read_parquet(FILE); print(t.columns, t.shape, t['time_s'].sum())",
      "import duckdb; t = duckdb.read_parquet(FILE); print(t.columns, t.shape, sum(r[0] for r in t.fetchall()))",
      "import pyarrow.parquet as p; t = p.read_table(FILE); print(t.column_names, t.shape, sum(t['time_s'].to_pylist()))",
    ];
    const python = [
      join(process.env.CARGO_TARGET_DIR ?? join(WEB, "../target"), "python/bin/python"),
      "python3",
    ];
    const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
    const file = join(folder, "x.parquet");
    writeFileSync(file, bytes);
    try {
      for (const command of python) {
        for (const reader of readers) {
          let out;
          try {
            out = execFileSync(command, ["-c", `FILE=${JSON.stringify(file)}\n${reader}`], {
              encoding: "utf8",
              stdio: "pipe",
            });
          } catch (error) {
            if (/ModuleNotFoundError|ENOENT/.test(String(error.stderr ?? "") + error.code))
              continue;
            throw error;
          }
          assert.equal(out.trim(), "['time_s', 'carried (bit/s)'] (3, 2) 6.0");
          return undefined;
        }
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    return "no reader of Parquet (polars, duckdb or pyarrow) is installed; only the frame was checked";
  },
};
