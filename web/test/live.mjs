// Tests of the page against the real command: a change on the page changes the rate of a transfer,
// and the page shows it. They need root.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, withBrowser } from "./browser.mjs";

/** The reason why the tests cannot run here; undefined if they can. */
export function missing(weir) {
  if (!weir || !existsSync(weir)) return "there is no command weir; name it with --weir";
  if (process.getuid?.() !== 0) return "namespaces need root";
  if (!execFileSync(weir, ["pair", "--help"], { encoding: "utf8" }).includes("--web"))
    return "this weir serves no page";
  try {
    execFileSync("iperf3", ["--version"], { stdio: "ignore" });
  } catch {
    return "iperf3 is missing; install it with scripts/setup test";
  }
  return undefined;
}

/** A running command, its output, and the address that it prints. */
export class Command {
  output = "";

  constructor(weir, args, env = {}) {
    this.child = spawn(weir, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream.on("data", (data) => (this.output += data));
    this.ended = new Promise((done) => this.child.on("exit", done));
  }

  /** The first match in the output. */
  async find(pattern, seconds = 20) {
    const until = Date.now() + seconds * 1000;
    for (;;) {
      const match = pattern.exec(this.output);
      if (match) return match;
      if (this.child.exitCode !== null) throw new Error(`the command has ended:\n${this.output}`);
      if (Date.now() > until) throw new Error(`no ${pattern} in ${seconds} s:\n${this.output}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** The address of the page with its token. */
  async address() {
    return (await this.find(/https?:\/\/\S+#token=[0-9a-zA-Z_-]+/))[0];
  }

  async end() {
    if (this.child.exitCode === null) this.child.kill("SIGTERM");
    const late = setTimeout(() => this.child.kill("SIGKILL"), 8000);
    await this.ended;
    clearTimeout(late);
  }
}

/** The rates in the lines that iperf3 has printed, in Mbit/s. */
function rates(output) {
  return [...output.matchAll(/sec\s+[\d.]+ \w+Bytes\s+([\d.]+) ([KMG])bits\/sec/g)].map(
    ([, number, unit]) => Number(number) * { K: 1e-3, M: 1, G: 1e3 }[unit],
  );
}

function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export const tests = {
  "a change on the page changes what a transfer gets": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const pair = new Command(weir, [
        "pair",
        "--web",
        "127.0.0.1:0",
        "--link",
        "bw 4Mbit/s delay 5ms queue 50",
        "--left",
        "iperf3 -s -1",
        "--right",
        "sh -c 'sleep 1; exec iperf3 -c left -t 40 -i 1 --forceflush'",
      ]);
      try {
        const address = await pair.address();
        const page = await open(browser);
        await page.goto(address);
        await page.waitForSelector(".thing");
        assert.ok(!(await page.evaluate(() => location.href)).includes("token"));
        await pair.find(/(sec\s+[\d.]+ \w+Bytes[^\n]*\n[^]*){6}/);
        const before = median(rates(pair.output).slice(2));
        assert.ok(before > 2 && before < 4.2, `${before} Mbit/s before the change`);
        // The client is on the right and sends to the left.
        await page.click("text=to-left");
        await page.waitForSelector(".change textarea");
        await page.waitForFunction(() =>
          /[34]\.\d/.test(document.querySelector(".tiles b").textContent),
        );
        await page.click(".field >> text=×2");
        assert.equal(await page.inputValue(".change textarea"), "bw 8Mbit/s");
        await page.waitForSelector(".report .good");
        await page.click(".change button[type=submit]");
        await page.waitForSelector("text=In force");
        const seen = rates(pair.output).length;
        while (rates(pair.output).length < seen + 6) await pause(200);
        const after = median(rates(pair.output).slice(seen + 2));
        assert.ok(after > 1.5 * before && after < 8.4, `${before} Mbit/s, then ${after} Mbit/s`);
        await page.waitForFunction(() =>
          /[678]\.\d/.test(document.querySelector(".tiles b").textContent),
        );
        await page.waitForSelector(".history li");
        await page.click(".change >> text=Undo");
        await page.waitForSelector("text=Taken back");
        const again = rates(pair.output).length;
        while (rates(pair.output).length < again + 6) await pause(200);
        const last = median(rates(pair.output).slice(again + 2));
        assert.ok(last < 4.6, `${last} Mbit/s after the change was taken back`);
        await page.done();
      } finally {
        await pair.end();
      }
    });
  },

  "the daemon's page shows pipes, changes them and survives a restart": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
      const start = (port) =>
        new Command(weir, [
          "serve",
          "--bridge",
          "weirtest0,weirtest1",
          "--state",
          join(folder, "state"),
          "--socket",
          join(folder, "socket"),
          "--web",
          `127.0.0.1:${port}`,
          "--user",
          "0",
        ]);
      let daemon = start(0);
      try {
        const address = await daemon.address();
        const page = await open(browser);
        await page.goto(`${address}`);
        await page.waitForSelector("main .view");
        await page.evaluate(() => (location.hash = "#/change"));
        await page.fill("textarea", "pipe 1 config bww 4Mbit/s");
        await page.waitForSelector(".diagnostic.error mark");
        await page.fill(
          "textarea",
          "pipe 1 config bw 4Mbit/s delay 20ms\nadd 100 pipe 1 ip from any to any",
        );
        await page.waitForSelector(".report .good");
        await page.click(".change button[type=submit]");
        await page.waitForSelector("text=In force");
        await page.evaluate(() => (location.hash = "#/"));
        await page.waitForSelector("text=pipe 1");
        await page.waitForSelector("text=Rule 100");
        // The interfaces of the bridge do not exist, which the page has to say.
        await page.waitForSelector(".pill.warn");
        assert.match(await page.textContent(".health"), /interface weirtest0 is missing/);
        await daemon.end();
        await page.waitForSelector(".banner.bad");
        daemon = start(new URL(address).port);
        await daemon.address();
        await page.waitForSelector(".pill.warn", { timeout: 20_000 });
        await page.waitForSelector("text=pipe 1");
        await page.done();
      } finally {
        await daemon.end();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },
};
