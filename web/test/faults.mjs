// Tests of faults outside the page, in Chromium with a stand-in for the server: a daemon that
// restarts, a network that does not answer, a clock that is wrong, a thousand hostile names.

import assert from "node:assert/strict";
import { gaps, open, rows, withBrowser } from "./browser.mjs";
import { enter, standIn } from "./looks.mjs";
import { TOKEN } from "./stand-in.mjs";

const OBJECT = ["#/o/pipe%3A1", ".uplot"];

/** Waits until the page is connected to the server. */
async function connected(page) {
  await page.waitForSelector(".pill.good", { timeout: 30_000 });
  await page.waitForSelector(".banner.bad", { state: "detached" });
}

export const tests = {
  "a daemon that restarts under an open page leaves a gap": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, ...OBJECT);
        await connected(page);
        assert.deepEqual(gaps(await rows(page)), []);
        const end = stand.now();
        stand.refuse = true;
        stand.cut();
        await page.waitForSelector(".banner.bad");
        // The daemon is away for two seconds, and remembers nothing.
        await page.waitForTimeout(2000);
        stand.since = stand.now();
        stand.refuse = false;
        await connected(page);
        let found = [];
        for (let i = 0; i < 100 && !found.length; i++) {
          await page.waitForTimeout(100);
          found = gaps(await rows(page));
        }
        assert.equal(found.length, 1, "what was before is there, then a gap, then the present");
        const [[from, to]] = found;
        assert.ok(from * 1000 <= end + 1000 && to * 1000 >= stand.since, `${from} to ${to}`);
        await page.done();
      }),
    ),

  "a network that is away for a minute leaves no gap": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await page.clock.install();
        await enter(page, address, ...OBJECT);
        await connected(page);
        const end = stand.now();
        stand.refuse = true;
        stand.cut();
        await page.waitForSelector(".banner.bad");
        const asked = stand.asks;
        for (let second = 0; second < 60; second++) {
          stand.skew += 1000;
          await page.clock.runFor(1000);
        }
        const attempts = stand.asks - asked;
        assert.ok(attempts >= 3 && attempts <= 30, `${attempts} attempts in a minute`);
        assert.match(await page.textContent(".banner.bad"), /No connection/);
        stand.refuse = false;
        for (let i = 0; i < 30 && !(await page.locator(".pill.good").count()); i++)
          await page.clock.runFor(1000);
        await connected(page);
        // The last three minutes include the one without a network.
        await page.click(".toolbar >> text=3 min");
        await page.clock.runFor(2000);
        const all = await rows(page);
        assert.deepEqual(gaps(all), []);
        const missed = all.filter(
          (row) => row.time_s * 1000 > end && row.time_s * 1000 < end + 60_000,
        );
        assert.ok(missed.length > 50, `${missed.length} rows of the minute`);
        await page.done();
      }),
    ),

  "times are those of the daemon, however wrong the browser's clock is": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        for (const hours of [-30, 0, 7]) {
          const page = await open(browser);
          await page.clock.install({ time: Date.now() + hours * 3_600_000 });
          await enter(page, address, ...OBJECT);
          await connected(page);
          let all = await rows(page);
          // The past comes with the first message, which may arrive after the connection is made.
          for (let i = 0; i < 100 && all.length <= 100; i++) all = await rows(page);
          assert.ok(all.length > 100, `${all.length} rows`);
          const late = stand.now() / 1000 - all.at(-1).time_s;
          assert.ok(Math.abs(late) < 60, `the newest value is ${late} s old`);
          const said = await page.textContent(".banners");
          assert.equal(/clock of this browser/.test(said), hours !== 0, said);
          await page.done();
        }
      }),
    ),

  "a thousand names with markup are text": () =>
    withBrowser((browser) =>
      standIn({ kind: "run", markup: true }, async (stand, address) => {
        stand.links = 1000;
        const page = await open(browser);
        let alerts = 0;
        page.on("dialog", (dialog) => {
          alerts++;
          void dialog.dismiss();
        });
        await enter(page, address);
        await page.waitForFunction(() => document.body.textContent.includes("host1<img src=x"));
        const clean = async () => {
          assert.equal(await page.locator("[onerror], [onload], main img").count(), 0);
          assert.doesNotMatch(await page.title(), /^broken/);
        };
        await clean();
        const names = stand.objects().map((one) => one.object);
        for (const name of [names[2], names[500], names.at(-1)]) {
          await page.evaluate(
            (object) => (location.hash = `#/o/${encodeURIComponent(object)}`),
            name,
          );
          await page.waitForFunction(
            (object) => document.querySelector("h1")?.textContent === object.slice(5),
            name,
          );
          await page.waitForSelector(".uplot");
          await clean();
        }
        await page.evaluate(() => (location.hash = "#/change"));
        await page.waitForSelector(".change textarea");
        await clean();
        assert.equal(alerts, 0);
        await page.done();
      }),
    ),

  "a token that is no longer valid asks for another, and shows the same view": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, ...OBJECT);
        await connected(page);
        await page.context().clearCookies();
        stand.cut();
        await page.waitForSelector("#token", { timeout: 15_000 });
        await page.fill("#token", "wrong");
        await page.keyboard.press("Enter");
        await page.waitForSelector("[role=alert]:has-text('wrong')");
        await page.fill("#token", TOKEN);
        await page.keyboard.press("Enter");
        await page.waitForSelector(".uplot");
        assert.equal(await page.textContent("h1"), "pipe 1");
        await page.done();
      }),
    ),
};
