// Tests of the trace, of plans and of reports against the real command. They need root.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { open, withBrowser } from "./browser.mjs";
import { Command, missing, pause } from "./live.mjs";
import { violations } from "./looks.mjs";

/** A request with the token of an address that a command printed. */
async function ask(address, path, options = {}) {
  const { origin, hash } = new URL(address);
  const response = await fetch(origin + path, {
    ...options,
    headers: {
      Authorization: `Bearer ${hash.slice("#token=".length)}`,
      "Content-Type": "application/json",
    },
  });
  return { status: response.status, body: await response.json().catch(() => null) };
}

/** Waits until `look` returns a true value, and returns this value. `what` is for the error. */
async function until(what, look, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`);
    await pause(100);
  }
}

/** The printed address with the token that only permits reading. */
async function readAddress(command) {
  return (await command.find(/to look only: (\S+)/))[1];
}

const RULES = [
  "pipe 1 config bw 4Mbit/s mask dst-ip 0xffffffff",
  "sched 5 config type wf2q+ bw 10Mbit/s",
  "queue 2 config sched 5 weight 10 mask src-ip 0xffffffff",
  "add 100 count udp from any to any",
  "add 110 pipe 1 tcp from 10.0.0.0/8 to any 443 in recv weirtrace0",
  "add 120 queue 2 icmp from any to any in",
  "add 130 pipe 9 udp from any to any 9 in",
  "add 140 deny ip from 192.0.2.66 to any",
].join("\n");

export const tests = {
  "the daemon's page traces packets through its rules, also to look only": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
      const daemon = new Command(weir, [
        "serve",
        "--bridge",
        "weirtrace0,weirtrace1",
        "--state",
        join(folder, "state"),
        "--socket",
        join(folder, "socket"),
        "--web",
        "127.0.0.1:0",
        "--user",
        "0",
      ]);
      try {
        const address = await daemon.address();
        const made = await ask(address, "/v1/change", {
          method: "POST",
          body: JSON.stringify({ words: RULES }),
        });
        assert.equal(made.status, 200, JSON.stringify(made.body));
        const page = await open(browser);
        // A token that only permits reading is enough: a trace changes nothing.
        await page.goto(await readAddress(daemon));
        await page.waitForSelector("main .view");
        await page.evaluate(() => (location.hash = "#/rules"));
        await page.waitForSelector(".rules tbody tr >> nth=3");
        const trace = async (packet) => {
          await page.fill("#packet", packet);
          await page.click(".trace button[type=submit]");
        };
        await page.selectOption("#packet-lane", "weirtrace0-weirtrace1");
        await trace("tcp 10.0.0.1:40000 192.0.2.1:443");
        await page.waitForSelector("text=It goes through pipe 1.");
        assert.match(await page.textContent(".enters"), /instance \* → 192\.0\.2\.1/);
        assert.match(await page.textContent(".way"), /100.*udp from any to any.*not: proto udp/s);
        // The other direction has another interface.
        await page.selectOption("#packet-lane", "weirtrace1-weirtrace0");
        await page.click(".trace button[type=submit]");
        await page.waitForSelector("text=It passes without a pipe.");
        assert.match(await page.textContent(".way"), /110.*not: recv weirtrace0/s);
        await trace("icmp 10.0.0.7 192.0.2.1");
        await page.waitForSelector("text=It goes through queue 2.");
        assert.deepEqual(await page.locator(".enters a[href^='#/o/']").allTextContents(), [
          "queue 2",
          "sched 5",
        ]);
        assert.match(await page.textContent(".enters"), /10\.0\.0\.7 → \*/);
        await trace("udp 10.0.0.1:5 192.0.2.1:9");
        await page.waitForSelector("text=It is dropped: pipe 9 does not exist.");
        await trace("tcp 192.0.2.66:1 10.0.0.1:2");
        await page.waitForSelector("text=It is dropped by rule 140.");
        await trace("tcp 10.0.0.1:40000 192.0.2.1:443 len 1500");
        await page.waitForSelector(".trace .diagnostic mark");
        assert.equal(await page.textContent(".trace .diagnostic mark"), "1500");
        // Nothing was counted, and nothing can be changed with this token.
        const rules = (await ask(address, "/v1/rules")).body;
        assert.ok(
          rules.every((rule) => rule.counters.packets === 0),
          JSON.stringify(rules),
        );
        await page.evaluate(() => (location.hash = "#/change"));
        await page.waitForSelector("#plan");
        assert.ok(await page.evaluate(() => document.getElementById("plan").readOnly));
        await page.done();
        const long = await ask(address, `/v1/trace?packet=${"x".repeat(3000)}`);
        assert.equal(long.status, 422);
        assert.match(long.body.error, /at most 1000 bytes/);
        const lane = await ask(address, "/v1/trace?packet=icmp+10.0.0.1+10.0.0.2&lane=eth9-eth8");
        assert.equal(lane.status, 404);
        assert.match(lane.body.error, /there are weirtrace0-weirtrace1, weirtrace1-weirtrace0/);
      } finally {
        await daemon.end();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },

  "a session with rules traces packets, and runs a plan of commands": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
      const file = join(folder, "rules");
      writeFileSync(file, "pipe 1 config bw 4Mbit/s\nadd 100 pipe 1 udp from any to any out\n");
      const run = new Command(weir, [
        "run",
        "--web",
        "127.0.0.1:0",
        "--rules",
        file,
        "--",
        "sleep",
        "600",
      ]);
      try {
        const address = await run.address();
        const page = await open(browser);
        await page.goto(address);
        await page.waitForSelector("main .view");
        await page.evaluate(() => (location.hash = "#/rules"));
        await page.waitForSelector(".rules tbody tr >> nth=1");
        await page.fill("#packet", "udp 10.0.0.1:5 192.0.2.1:9");
        await page.keyboard.press("Enter");
        await page.waitForSelector(".route");
        await page.waitForSelector("text=It goes through pipe 1.");
        await page.evaluate(() => (location.hash = "#/change"));
        await page.fill(
          "#plan",
          "0s pipe 1 config bw 1Mbit/s\n100ms add 90 pipe 1 tcp from any to any\n200ms delete 77",
        );
        await page.waitForSelector(
          "section:has(#plan) .report .bad, section:has(#plan) .diagnostic",
        );
        assert.match(await page.textContent("section:has(#plan) .report"), /Line 3/);
        await page.fill(
          "#plan",
          "0s pipe 1 config bw 1Mbit/s\n100ms add 90 pipe 1 tcp from any to any\n200ms reset",
        );
        await page.click("text=Start the plan");
        await page.waitForSelector("text=The plan is done.");
        assert.equal(await page.locator(".planlist .done").count(), 3);
        const { changes } = (await ask(address, "/v1/changes")).body;
        assert.equal(changes.length, 3, JSON.stringify(changes));
        const { objects } = (await ask(address, "/v1/objects")).body;
        assert.match(
          objects.find((one) => one.object === "pipe:1").spec,
          /bw 4Mbit\/s/,
          "it was reset",
        );
        assert.ok(!(await ask(address, "/v1/rules")).body.some((rule) => rule.number === 90));
        await page.done();
      } finally {
        await run.end();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },

  "a plan goes on without its tab, changes a transfer, and can be stopped": ({ weir }) => {
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
        "sleep 600",
        "--right",
        "sleep 600",
      ]);
      try {
        const address = await pair.address();
        let page = await open(browser);
        await page.goto(address);
        await page.waitForSelector(".thing");
        await page.evaluate(() => (location.hash = "#/change"));
        await page.fill(
          "#plan",
          "0s to-left bw 2Mbit/s\n1s to-left bw 1Mbit/s\n2s reset\n3600s bw 8Mbit/s",
        );
        await page.waitForSelector("text=4 steps, all correct");
        await page.click("text=Start the plan");
        await page.waitForSelector(".planlist .next");
        await page.done();
        // The tab is closed; the server makes the steps.
        const plan = await until("three steps are made", async () => {
          const { body } = await ask(address, "/v1/plan");
          return body.steps.filter((step) => step.done_ms !== null).length === 3 && body;
        });
        assert.equal(plan.state, "running");
        const { changes } = (await ask(address, "/v1/changes")).body;
        assert.deepEqual(
          changes.map((one) => /bw \d/.exec(one.after)?.[0]),
          ["bw 2", "bw 1", "bw 4"],
        );
        const again = await ask(address, "/v1/plan", {
          method: "POST",
          body: JSON.stringify({ text: "1s reset" }),
        });
        assert.equal(again.status, 409);
        // With a token that only permits reading, a plan can be neither started nor stopped.
        const looker = await readAddress(pair);
        assert.equal((await ask(looker, "/v1/plan", { method: "DELETE" })).status, 403);
        assert.equal((await ask(looker, "/v1/plan")).body.state, "running");
        page = await open(browser);
        await page.goto(address);
        await page.waitForSelector(".thing");
        await page.evaluate(() => (location.hash = "#/change"));
        await page.waitForSelector(".planlist .next");
        assert.equal(await page.locator(".planlist .done").count(), 3);
        assert.match(await page.textContent(".countdown"), /Step 4 of 4 comes in \d+ min/);
        assert.equal(
          await page.locator(".history li").count(),
          3,
          "its changes are in the history",
        );
        await page.click("text=Stop the plan");
        await page.waitForSelector("text=The plan was stopped.");
        for (const [text, part] of [
          ["# nothing", /a step in each line/],
          ["10 reset", /a time needs its unit/],
          ["1s reset\n".repeat(201), /at most 200 steps/],
          ["1s to-left bww 1Mbit/s", /bww/],
          ["100000s reset", /at most 24 hours/],
        ]) {
          const wrong = await ask(address, "/v1/plan", {
            method: "POST",
            body: JSON.stringify({ text }),
          });
          assert.equal(wrong.status, 422, text);
          assert.match(wrong.body.error, part);
        }
        await page.done();
      } finally {
        await pair.end();
      }
    });
  },

  "a report of the shown range is one file that needs no server": ({ weir, shots }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return withBrowser(async (browser) => {
      const folder = mkdtempSync(join(tmpdir(), "weir-page-"));
      const pair = new Command(weir, [
        "pair",
        "--web",
        "127.0.0.1:0",
        "--link",
        "bw 4Mbit/s delay 5ms queue 50",
        "--left",
        "iperf3 -s -1",
        "--right",
        "sh -c 'sleep 1; exec iperf3 -c left -t 300 -i 1 --forceflush'",
      ]);
      try {
        const address = await pair.address();
        const page = await open(browser);
        await page.goto(address);
        await page.waitForSelector(".thing");
        await page.evaluate(() => (location.hash = "#/o/link%3Ato-left"));
        await page.waitForFunction(() =>
          /[34]\.\d/.test(document.querySelector(".tiles b")?.textContent),
        );
        await page.click(".toolbar >> text=Record");
        await page.waitForSelector(".recording");
        await page.click(".field >> text=×2");
        await page.waitForSelector(".report .good");
        await page.click(".change button[type=submit]");
        await page.waitForSelector("text=In force");
        await page.waitForFunction(() =>
          /[78]\.\d/.test(document.querySelector(".tiles b")?.textContent),
        );
        await page.waitForFunction(() =>
          /Stop ([3-9]|\d\d) s/.test(document.querySelector(".recording").textContent),
        );
        await page.click(".recording");
        await page.waitForSelector(".reports a");
        const [file] = await Promise.all([page.waitForEvent("download"), page.click(".reports a")]);
        assert.match(file.suggestedFilename(), /^weir-.*\d+\.html$/);
        const path = join(folder, file.suggestedFilename());
        await file.saveAs(path);
        const text = readFileSync(path, "utf8");
        assert.doesNotMatch(
          text.replaceAll("http://www.w3.org/2000/svg", ""),
          /https?:\/\//,
          "it fetches nothing",
        );
        // The values of a plot, as the page saves them, are those of the link.
        const chart = page.locator('.chart:has(h2:text-is("Throughput"))');
        await chart.locator("summary").click();
        const [saved] = await Promise.all([
          page.waitForEvent("download"),
          chart.locator('.menu button:has-text("CSV")').click(),
        ]);
        const rows = readFileSync(await saved.path(), "utf8")
          .trim()
          .split("\n")
          .slice(1)
          .map((row) => row.split(",").map(Number));
        const most = Math.max(...rows.map((row) => row[2] || 0));
        assert.ok(most > 3e6 && most < 10e6, `carried at most ${most} bit/s`);
        await page.done();
        await pair.end();
        // The server is gone.
        for (const look of [
          { width: 390, colorScheme: "dark" },
          { width: 1280, colorScheme: "light" },
        ]) {
          const report = await open(browser, {
            viewport: { width: look.width, height: 900 },
            colorScheme: look.colorScheme,
          });
          await report.goto(pathToFileURL(path).href);
          const titles = await report.locator("figure h3").allTextContents();
          for (const title of ["Throughput", "Queue length", "Queueing delay"])
            assert.ok(titles.includes(title), titles.join(", "));
          assert.match(await report.textContent("body"), /to-left became bw 8Mbit\/s/);
          assert.equal(await report.locator("text=no data").count(), 0);
          const carried = await report.textContent(".tiles dd");
          assert.match(carried, /[3-8]\.\d+ Mbit\/s/);
          const over = await report.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          assert.ok(over <= 0, `${over} px too wide`);
          if (shots)
            await report.screenshot({
              path: `${shots}/span-${look.width}-${look.colorScheme}.png`,
              fullPage: true,
            });
          assert.deepEqual(await violations(report), []);
          await report.done();
        }
      } finally {
        await pair.end();
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },

  "reports are bounded and name what they cannot have": ({ weir }) => {
    const reason = missing(weir);
    if (reason) return reason;
    return (async () => {
      const pair = new Command(weir, [
        "pair",
        "--web",
        "127.0.0.1:0",
        "--link",
        "bw 4Mbit/s",
        "--left",
        "sleep 600",
        "--right",
        "sleep 600",
      ]);
      try {
        const address = await pair.address();
        const looker = await readAddress(pair);
        const report = (objects, from, to) =>
          ask(
            looker,
            `/v1/report?${new URLSearchParams({ objects: JSON.stringify(objects), from_ms: from, to_ms: to })}`,
          );
        const now = Date.now();
        // The first 64 objects are read without a tab, once a second.
        await until(
          "there is a report",
          async () => (await report(["link:to-left"], now - 60_000, now + 60_000)).status === 200,
        );
        for (const [objects, from, to, status, part] of [
          [[], now, now + 1, 400, /1 to 16 objects/],
          [Array.from({ length: 17 }, (_, i) => `pipe:${i}`), now, now + 1, 400, /1 to 16 objects/],
          [["link:nowhere"], now - 1000, now + 1000, 404, /no nowhere/],
          [["what"], now, now + 1, 400, /an object is/],
          [["link:to-left"], now, now, 400, /begins before it ends/],
          [["link:to-left"], now - 100 * 86_400_000, now, 400, /at most a day/],
          [["link:to-left"], 1000, 2000, 404, /nothing is known/],
        ]) {
          const answer = await report(objects, from, to);
          assert.equal(answer.status, status, JSON.stringify(answer.body));
          assert.match(answer.body.error, part);
        }
      } finally {
        await pair.end();
      }
    })();
  },
};
