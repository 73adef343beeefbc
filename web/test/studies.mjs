// Tests of the parts of the page that compute: scenarios, schedulers, the kernel's queues. The
// tests of looks use the stand-in; the tests of results use the real command.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open, withBrowser } from "./browser.mjs";
import { Command } from "./live.mjs";
import { enter, faults, standIn, violations } from "./looks.mjs";

/** The views: the address, and an element of the complete view. */
export const VIEWS = {
  scenarios: ["#/scenarios", ".study .pill"],
  schedulers: ["#/schedulers", ".curves .curve"],
  kernel: ["#/kernel", "table.numbers tbody tr"],
};

/** The reason why the tests with the real command cannot run here; undefined if they can. */
function missing(weir) {
  if (!weir || !existsSync(weir)) return "there is no command weir; name it with --weir";
  if (process.getuid?.() !== 0) return "namespaces need root";
  if (!execFileSync(weir, ["pair", "--help"], { encoding: "utf8" }).includes("--web"))
    return "this weir serves no page";
  return undefined;
}

/** A page of a real command, at one of its views. */
export async function visit(browser, command, hash, ready) {
  const address = await command.address();
  const page = await open(browser);
  await page.goto(address);
  await page.waitForSelector("main .view");
  await page.evaluate((to) => (location.hash = to), hash);
  await page.waitForSelector(ready);
  return page;
}

/** `weir pair` with two programs that do nothing. */
export function idlePair(weir) {
  return new Command(weir, [
    "pair",
    "--web",
    "127.0.0.1:0",
    "--link",
    "4M/5ms",
    "--left",
    "sleep 600",
    "--right",
    "sleep 600",
  ]);
}

/** A daemon that carries no traffic, confined as by default. */
export function idleDaemon(weir, folder, more = []) {
  return new Command(weir, [
    "serve",
    "--bridge",
    "weirtest2,weirtest3",
    "--state",
    join(folder, "state"),
    "--socket",
    join(folder, "socket"),
    "--web",
    "127.0.0.1:0",
    "--user",
    "0",
    ...more,
  ]);
}

/** Runs a test with the page of a confined daemon. */
export function withDaemon(weir, test) {
  const reason = missing(weir);
  if (reason) return reason;
  return withBrowser(async (browser) => {
    const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
    const daemon = idleDaemon(weir, folder);
    try {
      return await test(browser, daemon);
    } finally {
      await daemon.end();
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

export function withPair(weir, test) {
  const reason = missing(weir);
  if (reason) return reason;
  return withBrowser(async (browser) => {
    const pair = idlePair(weir);
    try {
      return await test(browser, pair);
    } finally {
      await pair.end();
    }
  });
}

/**
 * Runs a test with a command and a browser in a network namespace of its own, which has a device
 * with a full queue.
 */
async function withQueue(weir, words, test) {
  const reason = missing(weir);
  if (reason) return reason;
  for (const tool of ["ip", "tc", "unshare", "nsenter"]) {
    try {
      execFileSync("which", [tool]);
    } catch {
      return `${tool} is missing; install it with scripts/setup test`;
    }
  }
  const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
  const script = `ip link set lo up; ip link add full0 type veth peer name full1; ip addr add 10.99.0.1/24 dev full0; ip link set full0 up; ip link set full1 up; ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev full0
    tc qdisc add dev full0 root tbf rate 8kbit burst 1600 limit 20000; echo ready
    while :; do echo datagram > /dev/udp/10.99.0.2/9; sleep 0.02; done`;
  const holder = spawn("unshare", ["-n", "bash", "-c", script], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const path = process.env.PATH;
  let command;
  try {
    const ready = await new Promise((done) => {
      holder.stdout.once("data", () => done(true));
      holder.once("exit", () => done(false));
    });
    if (!ready) return "no network namespace can be made";
    const chromium = execFileSync(
      "sh",
      ["-c", "which chromium || which chromium-browser || which google-chrome || true"],
      { encoding: "utf8" },
    ).trim();
    writeFileSync(
      join(folder, "chromium"),
      `#!/bin/sh\nexec nsenter -t ${holder.pid} -n ${chromium} "$@"\n`,
    );
    chmodSync(join(folder, "chromium"), 0o755);
    if (chromium) process.env.PATH = `${folder}:${path}`;
    command = new Command("nsenter", ["-t", String(holder.pid), "-n", weir, ...words(folder)]);
    return await withBrowser((browser) => test(browser, command));
  } finally {
    process.env.PATH = path;
    await command?.end();
    holder.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The processes of studies below a process: the spawner, and those that it has forked. */
function studiesBelow(parent) {
  const all = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("__weir-studies")) return [];
        return [
          {
            pid: Number(pid),
            ppid: Number(/PPid:\t(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]),
          },
        ];
      } catch {
        return [];
      }
    });
  const spawners = all.filter((one) => one.ppid === parent).map((one) => one.pid);
  return all.filter((one) => spawners.includes(one.pid) || spawners.includes(one.ppid));
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

const SHORT = `name = "short"
duration = "2s"
node = [{ name = "a" }, { name = "b" }]
[[link]]
name = "line"
between = ["a", "b"]
spec = "bw 1Mbit/s delay 10ms queue 20"
[[traffic]]
name = "calls"
from = "a"
to = "b"
kind = "poisson"
rate = "RATE"
size = "1000B"
`;

/** Waits for the end of a study and returns its state. */
async function ended(page, number) {
  const card = page.locator(".study", { hasText: `#${number}` });
  await card.waitFor();
  await page.waitForFunction(
    (n) => {
      const one = [...document.querySelectorAll(".study")].find((s) =>
        s.textContent.includes(`#${n}`),
      );
      return one && !/running/.test(one.querySelector(".pill").textContent);
    },
    number,
    { timeout: 120_000 },
  );
  return card.locator(".pill").textContent();
}

export const tests = {
  "axe finds nothing on what computes, and nothing is too wide": () =>
    withBrowser((browser) =>
      standIn({ markup: true }, async (_stand, address) => {
        const found = [];
        for (const width of [390, 820, 1280, 2560]) {
          const page = await open(browser, { viewport: { width, height: 800 } });
          for (const [name, [hash, ready]] of Object.entries(VIEWS)) {
            await enter(page, address, hash, ready);
            for (const colorScheme of ["light", "dark"]) {
              for (const fault of await faults(page, colorScheme))
                found.push(`${name} ${colorScheme} ${width}: ${fault}`);
            }
          }
          assert.equal(await page.locator("main img").count(), 0);
          await page.done();
        }
        assert.deepEqual(found, []);
      }),
    ),

  "a scenario is checked, started, ended and compared with the keyboard": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/scenarios", ".study .pill");
        await page.waitForSelector(".report .good");
        assert.match(await page.inputValue("#scenario-text"), /^name = "two-hosts"/);
        const text = await page.inputValue("#scenario-text");
        await page.fill("#scenario-text", text.replace("bw ", "bww "));
        await page.waitForSelector(".diagnostic mark");
        assert.equal(await page.textContent(".diagnostic mark"), "bww");
        assert.match(await page.textContent(".diagnostic"), /did you mean `bw`/);
        assert.ok(await page.isDisabled(".scenarios button[type=submit]"));
        await page.focus(".diagnostic button");
        await page.keyboard.press("Enter");
        const chosen = await page.evaluate(() => {
          const { value, selectionStart, selectionEnd } = document.querySelector("#scenario-text");
          return value.slice(selectionStart, selectionEnd);
        });
        assert.equal(chosen, 'spec = "bww 10Mbit/s delay 10ms"', "the button selects the line");
        await page.fill("#scenario-text", text);
        await page.waitForSelector(".report .good");
        await page.fill("#scenario-runs", "many");
        await page.focus("#scenario-text");
        await page.keyboard.press("Control+Enter");
        await page.waitForSelector("text=Runs: a whole number");
        await page.fill("#scenario-runs", "5");
        stand.studies.hold = true;
        await page.focus("#scenario-text");
        await page.keyboard.press("Control+Enter");
        await page.waitForSelector("progress:not([hidden])");
        assert.deepEqual([stand.studies.started.runs, stand.studies.started.seed], [5, undefined]);
        await page.focus("#scenario-text");
        await page.keyboard.press("Control+Enter");
        await page.waitForSelector("text=there is one at a time");
        await page.focus(".study button >> nth=0");
        await page.keyboard.press("Enter");
        await page.waitForSelector(".pill >> text=ended");
        // A view that is left and entered again keeps the text.
        await page.fill("#scenario-text", text.replace("two-hosts", "mine"));
        await page.evaluate(() => (location.hash = "#/"));
        await page.waitForSelector(".thing");
        await page.evaluate(() => (location.hash = "#/scenarios"));
        await page.waitForSelector(".study .pill");
        assert.match(await page.inputValue("#scenario-text"), /"mine"/);
        stand.studies.hold = false;
        await page.waitForSelector(".report .good");
        await page.click(".scenarios button[type=submit]");
        await page.waitForSelector(".study:nth-child(1) input:visible");
        for (const box of await page.locator(".study input:visible").all())
          await box.press("Space");
        await page.focus("button:text-is('Compare')");
        await page.keyboard.press("Enter");
        await page.waitForSelector("table.numbers tbody tr");
        assert.deepEqual(await violations(page), []);
        assert.match(await page.textContent("table.numbers"), /significant, p < 0\.001/);
        await page.done();
      }),
    ),

  "who may only look opens results and starts nothing": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        stand.access = "read";
        let page = await open(browser);
        await enter(page, address, "#/scenarios", ".study .pill");
        assert.ok(await page.isDisabled(".scenarios button[type=submit]"));
        assert.ok(await page.isDisabled(".study button >> nth=0"));
        assert.equal(await page.locator("a[href$='/report']:visible").count(), 1);
        await page.done();
        stand.studies.why = "no process for simulations can be started: out of memory";
        page = await open(browser);
        await enter(page, address, "#/scenarios", "text=Scenarios cannot be simulated here");
        await page.done();
      }),
    ),

  "schedulers are compared with the keyboard, for flows that are chosen": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/schedulers", ".curves .curve");
        assert.equal(await page.locator(".curves svg").count(), 3, "a plot for each flow");
        assert.equal(
          await page.locator(".curves svg >> nth=0 >> .curve").count(),
          4,
          "three schedulers and the fluid",
        );
        await page.focus("label.check:has-text('qfq+') input");
        await page.keyboard.press("Space");
        await page.waitForFunction(
          () => document.querySelectorAll(".curves svg")[0].querySelectorAll(".curve").length === 5,
        );
        await page.focus(".flow input >> nth=0");
        await page.keyboard.press("ArrowRight");
        await page.waitForSelector("text=Flow 1: weight 2 of 8");
        await page.focus("text=Add a flow");
        await page.keyboard.press("Enter");
        await page.waitForFunction(() => document.querySelectorAll(".curves svg").length === 4);
        await page.selectOption(".flow:nth-child(4) select", "imix");
        await page.waitForSelector("text=Flow 4: weight 1 of 9, packets of 40, 576 or 1500 B");
        await page.fill("#packets", "abc");
        assert.match(await page.getAttribute("#packets", "class"), /wrong/);
        await page.fill("#packets", "300");
        await page.selectOption("#load", "ramp");
        await page.waitForFunction(() =>
          document.querySelector(".view").textContent.includes("450,000 bytes"),
        );
        assert.deepEqual(stand.studies.curvesAsked, {
          algorithms: ["fifo", "drr", "wf2q+", "qfq+"],
          flows: "1:w2:l1500,1:w2:l1500,1:w4:l300,1:w1:imix",
          load: "ramp",
          packets: 300,
          seed: 1,
        });
        await page.focus("button:text-is('Ahead of the fluid')");
        await page.keyboard.press("Enter");
        await page.focus(".curves >> nth=0");
        for (const key of ["End", "ArrowLeft"]) await page.keyboard.press(key);
        assert.match(
          await page.textContent("figure [aria-live] >> nth=0"),
          /kB: fifo .*, fluid 0 B$/,
        );
        const [file] = await Promise.all([
          page.waitForEvent("download"),
          page.click("text=Save CSV >> nth=0"),
        ]);
        assert.match(file.suggestedFilename(), /flow-1.*\.csv$/);
        await page.done();
        stand.access = "read";
        const reader = await open(browser);
        await enter(reader, address, "#/schedulers", "text=nothing can be computed");
        await reader.done();
      }),
    ),

  "the kernel's queues are read only while somebody looks": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/kernel", "table.numbers tbody tr");
        assert.equal(await page.inputValue("#device"), "eth0", "not the loopback");
        await page.waitForSelector("text=root may");
        await page.waitForFunction(() => document.querySelectorAll(".kernel .uplot").length === 2);
        assert.match(await page.textContent("tbody tr >> nth=1"), /eth0 fq_codel 10:.*pkts/);
        await page.focus("#device");
        await page.selectOption("#device", "eth1");
        await page.waitForSelector("tbody th:has-text('eth1 tbf 8001:')");
        assert.equal(await page.evaluate(() => location.hash), "#/kernel/eth1");
        await page.evaluate(() => (location.hash = "#/"));
        await page.waitForSelector(".thing");
        // A request may still be under way, so the count has to stay the same for a second.
        let asked = -1;
        for (let tries = 0; asked !== stand.studies.kernelAsked; tries++) {
          assert.ok(tries < 30, "another view asks for nothing");
          asked = stand.studies.kernelAsked;
          await page.waitForTimeout(1000);
        }
        stand.studies.why = "no process can be started";
        await page.evaluate(() => (location.hash = "#/kernel/eth1"));
        await page.waitForSelector("text=The queues cannot be read: no process can be started");
        await page.done();
      }),
    ),

  "the page of a confined daemon simulates, reports and compares": ({ weir }) =>
    withDaemon(weir, async (browser, daemon) => {
      const page = await visit(browser, daemon, "#/scenarios", "#scenario-text");
      await page.waitForSelector(".report .good", { timeout: 60_000 });
      await page.fill("#scenario-text", SHORT.replace("RATE", "2Mbitt/s"));
      await page.waitForSelector(".diagnostic.error mark", { timeout: 60_000 });
      assert.match(await page.textContent(".diagnostic.error"), /Line 13/);
      for (const [number, rate] of [
        [1, "500kbit/s"],
        [2, "2Mbit/s"],
      ]) {
        await page.fill("#scenario-text", SHORT.replace("RATE", rate));
        await page.waitForSelector(".report .good", { timeout: 60_000 });
        await page.click(".scenarios button[type=submit]");
        assert.equal(await ended(page, number), "done");
      }
      const [report] = await Promise.all([
        page.context().waitForEvent("page"),
        page.click("a[href='/v1/studies/2/report']"),
      ]);
      await report.waitForSelector("svg");
      assert.match(await report.title(), /short/);
      // The report's scripts run, without the rights of the page.
      assert.equal(await report.evaluate(() => self.origin), "null");
      const stolen = await report.evaluate(() =>
        fetch("/v1/page").then(
          () => "answered",
          () => "refused",
        ),
      );
      assert.equal(stolen, "refused");
      await report.waitForSelector(".save button:visible");
      await report.close();
      for (const box of await page.locator(".study input:visible").all()) await box.check();
      await page.click("button:text-is('Compare')");
      await page.waitForSelector("table.numbers tbody tr", { timeout: 60_000 });
      assert.match(await page.textContent("table.numbers"), /flow calls[^]*goodput[^]*significant/);
      await page.done();
    }),

  "a simulation is ended from the page, and one that needs too much ends itself": ({ weir }) =>
    withPair(weir, async (browser, pair) => {
      const page = await visit(browser, pair, "#/scenarios", "#scenario-text");
      await page.waitForSelector(".report .good", { timeout: 60_000 });
      await page.fill(
        "#scenario-text",
        SHORT.replace("2s", "300000s").replace("RATE", "900kbit/s"),
      );
      await page.waitForSelector(".report .good", { timeout: 60_000 });
      await page.click(".scenarios button[type=submit]");
      await page.waitForFunction(
        () => Number(document.querySelector("progress")?.value) > 0,
        undefined,
        { timeout: 60_000 },
      );
      await page.click("text=End it");
      assert.equal(await ended(page, 1), "ended");
      // A million flows with a port each do not fit into the memory of a study.
      await page.fill(
        "#scenario-text",
        SHORT.replace("RATE", "1bit/s").replace(
          'name = "calls"',
          'name = "calls"\ncount = 1000000',
        ),
      );
      await page.waitForSelector(".report .good", { timeout: 60_000 });
      await page.click(".scenarios button[type=submit]");
      assert.equal(await ended(page, 2), "failed");
      assert.match(await page.textContent(".study p.bad:visible"), /needed more than/);
      // The links are not affected.
      assert.equal(pair.child.exitCode, null);
      await page.evaluate(() => (location.hash = "#/"));
      await page.waitForSelector(".pill.good");
      await page.done();
    }),

  "the queues of the kernel are on the page, and are read only while it shows them": ({ weir }) =>
    withQueue(
      weir,
      () => [
        "pair",
        "--web",
        "127.0.0.1:0",
        "--link",
        "4M/5ms",
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
      ],
      async (browser, pair) => {
        const page = await visit(browser, pair, "#/kernel/full0", "tbody th:has-text('full0 tbf')");
        // Tens of packets a second arrive at a queue that sends one kilobyte a second.
        await page.waitForFunction(
          () => Number(document.querySelector("tbody .num b")?.textContent) > 5,
          undefined,
          { timeout: 60_000 },
        );
        await page.waitForSelector(".kernel .uplot");
        assert.match(
          await page.textContent(".pick .note"),
          /Read 1,000 times a second, inside the kernel|Read 100 times a second, over netlink/,
        );
        const options = await page.locator("#device option").allTextContents();
        assert.ok(options.includes("lo") && options.includes("full0"), options.join());
        assert.equal(studiesBelow(pair.child.pid).length, 2, "the spawner and a reader");
        await page.evaluate(() => (location.hash = "#/"));
        await page.waitForSelector(".thing");
        for (let tries = 0; studiesBelow(pair.child.pid).length > 1; tries++) {
          assert.ok(tries < 300, "a reader without a viewer ends");
          await pause(100);
        }
        // A device that does not exist is named.
        await page.evaluate(() => (location.hash = "#/kernel/gone0"));
        await page.waitForSelector("text=there is no device 'gone0'");
        await page.done();
      },
    ),

  "the page of a confined daemon reads the kernel's queues over netlink and says why": ({ weir }) =>
    withQueue(
      weir,
      (folder) => [
        "serve",
        "--bridge",
        "weirtest2,weirtest3",
        "--state",
        join(folder, "state"),
        "--socket",
        join(folder, "socket"),
        "--web",
        "127.0.0.1:0",
        "--user",
        "0",
      ],
      async (browser, daemon) => {
        const page = await visit(
          browser,
          daemon,
          "#/kernel/full0",
          "tbody th:has-text('full0 tbf')",
        );
        await page.waitForFunction(
          () => Number(document.querySelector("tbody .num b")?.textContent) > 5,
          undefined,
          { timeout: 60_000 },
        );
        assert.match(await page.textContent(".pick .note"), /over netlink/);
        await page.waitForSelector("text=--keep-privileges keeps them");
        await page.done();
      },
    ),

  "the page of a confined daemon computes service curves": ({ weir }) =>
    withDaemon(weir, async (browser, daemon) => {
      const page = await visit(browser, daemon, "#/schedulers", ".curves .curve");
      assert.equal(await page.locator(".curves svg").count(), 3);
      await page.click("label.check:has-text('wf2q+') >> nth=0");
      await page.waitForFunction(
        () => document.querySelectorAll(".curves svg")[0].querySelectorAll(".curve").length === 3,
      );
      // FIFO knows no weights: the flow with the greatest weight falls behind.
      await page.click("button:text-is('Ahead of the fluid')");
      await page.focus(".curves >> nth=2");
      await page.keyboard.press("End");
      assert.match(await page.textContent("figure >> nth=2 >> [aria-live]"), /fifo -\d.*fluid 0 B/);
      await page.fill("#other-alg", "no-such");
      await page.waitForSelector("[role=alert]:has-text('no-such')", { timeout: 60_000 });
      await page.done();
    }),
};
