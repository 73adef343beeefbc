// Tests of the page in Chromium with a stand-in for the server: accessibility, names with markup,
// lost connections, wrong clocks, old pages, wrong tokens.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { open, withBrowser } from "./browser.mjs";
import { StandIn, TOKEN } from "./stand-in.mjs";

export const WEB = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = join(WEB, "../crates/weir-control/page");
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/**
 * The views: the address, and an element of the complete view. A third entry is an element that is
 * there before the first values arrive.
 */
export const VIEWS = {
  overview: ["#/", ".thing"],
  object: ["#/o/pipe%3A1", ".uplot"],
  instances: ["#/instances", ".row .key", ".scroller"],
  rules: ["#/rules", ".rules tbody tr", ".rules"],
  change: ["#/change", "textarea"],
};

export async function standIn(options, test) {
  const stand = new StandIn({ folder, ...options });
  const address = await stand.listen();
  try {
    return await test(stand, address);
  } finally {
    stand.close();
  }
}

/** Opens the page at a view, and waits for the element `ready`. */
export async function enter(page, address, hash = "#/", ready = ".thing") {
  await page.goto(`${address}/#token=${TOKEN}`);
  await page.waitForSelector("main .view");
  if (hash !== "#/") await page.evaluate((to) => (location.hash = to), hash);
  await page.waitForSelector(ready);
}

/** The violations that axe finds on the page. */
export async function violations(page) {
  // The page's policy forbids foreign scripts, but not those of the test.
  if (!(await page.evaluate(() => "axe" in globalThis)))
    await page.evaluate(readFileSync(AXE, "utf8"));
  const result = await page.evaluate(() =>
    globalThis.axe.run(document, { resultTypes: ["violations"] }),
  );
  return result.violations.map(
    (v) =>
      `${v.id}: ${v.help}: ${v.nodes
        .slice(0, 3)
        .map((n) => n.html.slice(0, 160))
        .join(" | ")}`,
  );
}

/**
 * What is wrong with the looks of the page in a colour scheme: violations that axe finds, and
 * whether the page is wider than the window. `shot` names a file for a picture.
 */
export async function faults(page, colorScheme, shot) {
  await page.emulateMedia({ colorScheme });
  // Two frames later, the plots have the colours of the scheme.
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  const found = await violations(page);
  const over = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  if (over > 0) found.push(`the page is ${over} px too wide`);
  if (shot) await page.screenshot({ path: shot, fullPage: true });
  return found;
}

export const tests = {
  "axe finds nothing on any view, light and dark": () =>
    withBrowser((browser) =>
      standIn({ markup: true }, async (_stand, address) => {
        const found = [];
        for (const width of [390, 1280]) {
          const page = await open(browser, { viewport: { width, height: 800 } });
          for (const [name, [hash, ready]] of Object.entries(VIEWS)) {
            await enter(page, address, hash, ready);
            await page.waitForTimeout(700);
            for (const colorScheme of ["light", "dark"]) {
              for (const fault of await faults(page, colorScheme))
                found.push(`${name} ${colorScheme} ${width}: ${fault}`);
            }
          }
          await page.done();
        }
        assert.deepEqual(found, []);
      }),
    ),

  "nothing is wider than the page": () =>
    withBrowser((browser) =>
      standIn({ markup: true }, async (_stand, address) => {
        for (const width of [390, 820, 1280, 2560]) {
          const page = await open(browser, { viewport: { width, height: 900 } });
          for (const [name, [hash, ready]] of Object.entries(VIEWS)) {
            await enter(page, address, hash, ready);
            const over = await page.evaluate(
              () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
            );
            assert.ok(over <= 0, `${name} at ${width} px is ${over} px too wide`);
          }
          await page.done();
        }
      }),
    ),

  "names with markup are text": () =>
    withBrowser((browser) =>
      standIn({ kind: "run", markup: true }, async (_stand, address) => {
        const page = await open(browser);
        await enter(page, address);
        assert.match(await page.textContent(".end"), /<img src=x/);
        assert.equal(await page.locator("main img, main b:has-text('bold')").count(), 0);
        assert.doesNotMatch(await page.title(), /broken/);
        await page.done();
      }),
    ),

  "a lost connection is told, and comes back": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/o/pipe%3A1", ".uplot");
        await page.waitForSelector(".pill.good");
        stand.refuse = true;
        stand.cut();
        await page.waitForSelector(".banner.bad");
        assert.match(await page.textContent(".banner.bad"), /No connection/);
        stand.refuse = false;
        await page.waitForSelector(".pill.good", { timeout: 15_000 });
        await page.waitForSelector(".banner.bad", { state: "detached" });
        await page.done();
      }),
    ),

  "a silent server counts as lost": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address);
        await page.waitForSelector(".pill.good");
        stand.silent = true;
        stand.refuse = true;
        await page.waitForSelector(".banner.bad", { timeout: 15_000 });
        await page.done();
      }),
    ),

  "an old page and a wrong clock are told": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        stand.skew = 3 * 3_600_000;
        const page = await open(browser);
        await enter(page, address);
        await page.waitForSelector(".banner");
        assert.match(await page.textContent(".banners"), /clock of this browser is .*behind/);
        stand.pageVersion = "2";
        stand.cut();
        await page.waitForSelector("text=older than the daemon", { timeout: 15_000 });
        await page.done();
      }),
    ),

  "a wrong token asks for another": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        const page = await open(browser);
        await page.goto(`${address}/#token=wrong`);
        await page.waitForSelector("#token");
        assert.equal(
          await page.evaluate(() => location.hash),
          "",
          "the address no longer holds the token",
        );
        assert.match(await page.textContent("[role=alert]"), /wrong/);
        assert.deepEqual(await violations(page), []);
        await page.fill("#token", TOKEN);
        await page.keyboard.press("Enter");
        await page.waitForSelector(".thing");
        await page.done();
      }),
    ),

  "words are checked as typed, and who only reads cannot change": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        let page = await open(browser);
        await enter(page, address, "#/o/pipe%3A1", ".change textarea");
        await page.fill(".field input >> nth=0", "9Mbitss");
        assert.match(
          await page.inputValue(".change textarea"),
          /pipe 1 config bw 9Mbitss delay 20ms/,
        );
        await page.waitForSelector(".diagnostic mark");
        assert.equal(await page.textContent(".diagnostic mark"), "bitss");
        assert.ok(await page.isDisabled(".change button[type=submit]"));
        await page.click("text=×2");
        await page.fill(".field input >> nth=0", "4Mbit/s");
        await page.click(".field >> text=×2");
        assert.match(await page.inputValue(".change textarea"), /bw 8Mbit\/s/);
        await page.waitForSelector(".report .good");
        await page.keyboard.press("Tab");
        await page.click(".change button[type=submit]");
        await page.waitForSelector("text=In force");
        assert.equal(stand.changes.at(-1).what, "pipe 1 config bw 8Mbit/s delay 20ms queue 60");
        await page.done();
        stand.access = "read";
        page = await open(browser);
        await enter(page, address, "#/o/pipe%3A1", ".change textarea");
        assert.ok(await page.isDisabled(".change textarea"));
        await page.done();
      }),
    ),

  "a page that is loaded again shows the same view": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        const page = await open(browser);
        // The page must show its view even if the objects arrive late.
        await page.route("**/v1/objects", async (route) => {
          await page.waitForTimeout(300);
          await route.continue();
        });
        await enter(page, address, "#/o/pipe%3A1", ".change textarea");
        await page.reload();
        await page.waitForSelector(".change textarea");
        assert.equal(await page.textContent("h1"), "pipe 1");
        await page.evaluate(() => (location.hash = "#/instances"));
        await page.waitForSelector(".row .key");
        await page.reload();
        await page.waitForSelector(".row .key");
        assert.equal(await page.inputValue("#of"), "pipe:7");
        await page.done();
      }),
    ),

  "a page whose first reading failed reads the objects again": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        const page = await open(browser);
        let refused = 0;
        await page.route("**/v1/objects", async (route) => {
          if (refused++ < 2) await route.fulfill({ status: 503, body: "{}" });
          else await route.continue();
        });
        await enter(page, address, "#/o/pipe%3A1", ".change textarea");
        assert.ok(refused > 2, `${refused} readings`);
        await page.done();
      }),
    ),

  "every plot has keys, a table and files": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/o/pipe%3A1", ".uplot");
        await page.waitForTimeout(500);
        await page.focus(".chart .canvas");
        for (const key of ["ArrowLeft", "ArrowLeft", "+"]) await page.keyboard.press(key);
        assert.match(
          await page.textContent(".chart [aria-live]"),
          /\d\d:\d\d:\d\d\.\d, offered .*bit\/s/,
        );
        assert.equal(await page.textContent(".toolbar button"), "Follow", "a zoom stands still");
        await page.keyboard.press("Escape");
        assert.equal(await page.textContent(".toolbar button"), "Pause");
        await page.click(".chart >> nth=0 >> text=Table");
        assert.ok((await page.locator(".chart >> nth=0 >> tbody tr").count()) > 10);
        for (const [form, start] of [
          ["CSV", "time_s,"],
          ["Parquet", "PAR1"],
          ["SVG", "<svg"],
          ["PNG", "\u0089PNG"],
        ]) {
          await page.click(".chart >> nth=1 >> summary");
          const [file] = await Promise.all([
            page.waitForEvent("download"),
            page.click(`.chart >> nth=1 >> button:has-text("${form}")`),
          ]);
          const content = readFileSync(await file.path(), "latin1");
          assert.ok(
            content.startsWith(start),
            `${file.suggestedFilename()}: ${content.slice(0, 20)}`,
          );
        }
        await page.done();
      }),
    ),

  "ten thousand instances have few elements, and the search finds one": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/instances", ".row .key");
        assert.ok((await page.locator(".rows .row").count()) <= 100);
        await page.evaluate(() => (document.querySelector(".scroller").scrollTop = 200_000));
        await page.waitForTimeout(1500);
        const inside = await page.evaluate(() => {
          const box = document.querySelector(".scroller").getBoundingClientRect();
          return [...document.querySelectorAll(".rows .row:not([hidden])")].some(
            (r) =>
              r.getBoundingClientRect().top < box.bottom &&
              r.getBoundingClientRect().bottom > box.top,
          );
        });
        assert.ok(inside, "rows are where the list is scrolled to");
        await page.keyboard.press("/");
        await page.keyboard.type("10.0.3.77");
        // The whole text: "11 of 10,000" stands there while the last digit is not typed.
        await page.waitForSelector("text=/(^|\\D)1 of 10,000/");
        assert.match(await page.textContent(".row .key >> nth=0"), /10\.0\.3\.77/);
        await page.done();
      }),
    ),

  "four clicks find the longest queue of ten thousand and double its rate": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address);
        await page.click("nav >> text=Instances");
        await page.click(".sort >> text=Packets waiting");
        await page.waitForFunction(
          () => document.querySelector(".rows .queue b")?.textContent === "19",
        );
        await page.click(".rows .key >> nth=0");
        await page.waitForSelector(".report .good");
        // Rows with equal queues change places: the address of the page tells which row was opened.
        const name = await page.evaluate(() => decodeURIComponent(location.hash).split(" ").at(-1));
        await page.click(".change button[type=submit]");
        await page.waitForSelector("text=In force");
        const { what } = stand.changes.at(-1);
        assert.match(what, /^pipe 8 config bw 40Mbit\/s queue 100\n/);
        assert.ok(what.includes(` to ${name} `), what);
        await page.done();
      }),
    ),
};
