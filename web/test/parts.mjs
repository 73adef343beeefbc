// Tests of single parts of the page: the table of the heat map and, with the stand-in, the counts
// of hidden objects, the trace of a packet, timed plans, reports of a span, and the files of plots.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { build } from "esbuild";
import { open, withBrowser } from "./browser.mjs";
import { WEB, enter, faults, standIn } from "./looks.mjs";

/** The widths at which a part is tested, each in both colour schemes. */
const WIDTHS = [390, 1280];

/** Checks that nothing is wider than the page, and that axe finds no violations, light and dark. */
async function fits(page, name, width, shots) {
  for (const colorScheme of ["light", "dark"]) {
    const shot = shots && `${shots}/${name}-${width}-${colorScheme}.png`;
    assert.deepEqual(await faults(page, colorScheme, shot), [], `${name} ${width} ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: "light" });
}

export const tests = {
  "the heat map's table has the newest numbers, however long the page is open": () =>
    withBrowser(async (browser) => {
      const { outputFiles } = await build({
        entryPoints: [join(WEB, "src/heat.ts")],
        bundle: true,
        format: "iife",
        globalName: "heat",
        write: false,
      });
      const page = await open(browser);
      await page.addScriptTag({ content: outputFiles[0].text });
      const shown = await page.evaluate(() => {
        const map = new globalThis.heat.HeatMap();
        document.body.append(map.node);
        const read = () =>
          [...map.node.querySelectorAll("td")].map((cell) => Number(cell.textContent));
        // One column a second. The map keeps 600 of them, and fills the table at each fifth.
        const at = [];
        for (let second = 0; second < 1000; second++) {
          map.push({ bins: [second, 7] }, second * 1000);
          if (second % 100 === 0) at.push(read());
        }
        map.close();
        return at;
      });
      assert.deepEqual(shown, [[7], ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map((i) => [100 * i, 7])]);
      await page.done();
    }),

  "the overview counts the pipes and the schedulers that it does not show": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const listed = stand.objects();
        const copies = (kind, count) => {
          const first = listed.find((object) => object.kind === kind);
          return Array.from({ length: count }, (_, i) => ({
            ...first,
            object: `${kind}:${i + 1}`,
          }));
        };
        const lanes = listed.filter((object) => object.kind === "lane");
        const all = [
          ...lanes,
          ...copies("pipe", 12),
          ...copies("sched", 11),
          ...copies("queue", 3),
        ];
        stand.objects = () => all;
        const page = await open(browser);
        await enter(page, address, "#/", ".more[href='#/instances/scheds']");
        const more = (of) => page.textContent(`.more[href='#/instances/${of}']`);
        // A column has at most eight cards of a kind.
        assert.equal(await more("pipes"), "4 more");
        assert.equal(await more("scheds"), "3 more");
        await page.done();
      }),
    ),

  "a packet is traced by fields and by words": ({ shots }) =>
    withBrowser((browser) =>
      standIn({ markup: true }, async (stand, address) => {
        for (const width of WIDTHS) {
          const page = await open(browser, { viewport: { width, height: 900 } });
          await enter(page, address, "#/rules", ".trace");
          await page.selectOption("#packet-protocol", "udp");
          await page.fill("#packet-target", "192.0.2.9:53");
          assert.equal(await page.inputValue("#packet"), "udp 10.0.0.1:40000 192.0.2.9:53");
          await page.click(".trace details summary");
          await page.fill("#packet-dscp", "ef");
          assert.equal(await page.inputValue("#packet"), "udp 10.0.0.1:40000 192.0.2.9:53 dscp ef");
          await page.selectOption("#packet-lane", "eth2-eth1");
          await page.fill("#packet", "tcp 10.0.0.1:1 10.0.3.7:80 flags syn");
          assert.equal(await page.inputValue("#packet-flags"), "syn");
          assert.equal(await page.inputValue("#packet-dscp"), "");
          await page.keyboard.press("Enter");
          await page.waitForSelector(".route.good");
          assert.match(await page.textContent(".route"), /through pipe 7, then queue 1/);
          assert.match(await page.textContent(".enters"), /instance \* → 10\.0\.3\.7/);
          assert.equal(await page.getAttribute(".enters li:first-child a", "href"), "#/o/pipe%3A7");
          assert.match(await page.textContent(".steps summary"), /11 rules that do not match/);
          assert.match(await page.textContent(".way"), /12,000 more rules are not listed/);
          assert.equal(await page.locator(".way img").count(), 0, "names are text");
          await page.locator(".steps summary").focus();
          await page.keyboard.press("Enter");
          await page.waitForSelector(".steps .steps .passed");
          await fits(page, "trace", width, shots);
          await page.fill("#packet", "tpc 10.0.0.1:1 10.0.3.7:80");
          await page.keyboard.press("Enter");
          await page.waitForSelector(".trace .diagnostic mark");
          assert.equal(await page.textContent(".trace .diagnostic mark"), "tpc");
          await fits(page, "trace-wrong", width);
          await page.done();
        }
      }),
    ),

  "a plan is built, checked, drawn, started and stopped": ({ shots }) =>
    withBrowser(async (browser) => {
      for (const width of WIDTHS) {
        await standIn({ kind: "run" }, async (stand, address) => {
          const page = await open(browser, { viewport: { width, height: 1100 } });
          await enter(page, address, "#/change", "#plan");
          const begin = page.locator("text=Start the plan");
          assert.ok(await begin.isDisabled(), "there is nothing to start");
          await page.fill("#plan-at", "0s");
          await page.selectOption("#plan-link", "down");
          await page.fill("#plan-what", "bw 500kbit/s loss 5%");
          await page.keyboard.press("Enter");
          assert.equal(await page.inputValue("#plan"), "0s down bw 500kbit/s loss 5%");
          assert.ok(
            await page.evaluate(() => document.activeElement.id === "plan-at"),
            "the next step can be typed",
          );
          await page.fill("#plan-at", "60s");
          await page.selectOption("#plan-link", "up");
          await page.fill("#plan-what", "wrong");
          await page.click("text=Add the step");
          await page.waitForSelector("section:has(#plan) .diagnostic mark");
          assert.match(await page.textContent("section:has(#plan) .diagnostic"), /Line 2/);
          assert.ok(await begin.isDisabled());
          await page.fill(
            "#plan",
            "0s down bw 500kbit/s loss 5%\n60s up bw 64kbit/s\n90s down bw 1Mbit/s\n120s reset",
          );
          await page.waitForSelector("text=4 steps, all correct");
          assert.equal(await page.locator(".planned .span").count(), 4);
          assert.deepEqual(await page.locator(".planned .names span").allTextContents(), [
            "down",
            "up",
            "all links",
          ]);
          await begin.click();
          await page.waitForSelector(".planlist .next");
          await page.waitForSelector(".planlist .done");
          assert.match(await page.textContent(".countdown"), /Step 2 of 4 comes in \d+ s|1 min/);
          assert.equal(await page.getAttribute(".planlist .next", "aria-current"), "step");
          assert.ok(await page.evaluate(() => document.getElementById("plan").readOnly));
          await fits(page, "plan", width, shots);
          // Another tab shows the same plan, and stops it.
          const other = await open(browser);
          await enter(other, address, "#/change", ".planlist .next");
          await other.locator("text=Stop the plan").focus();
          await other.keyboard.press("Enter");
          await other.waitForSelector("text=The plan was stopped");
          await other.done();
          await page.waitForSelector("text=The plan was stopped");
          assert.equal(stand.started.state, "stopped");
          assert.equal(await page.locator(".planlist .next").count(), 0);
          await page.done();
        });
      }
    }),

  "a report is a link, of the shown range or of a recording": ({ shots }) =>
    withBrowser(async (browser) => {
      for (const width of WIDTHS) {
        await standIn({}, async (stand, address) => {
          const page = await open(browser, { viewport: { width, height: 900 } });
          await enter(page, address, "#/o/pipe%3A1", ".uplot");
          await page.click(".toolbar >> text=Report");
          await page.waitForSelector(".reports a");
          assert.deepEqual(JSON.parse(stand.reports[0].objects), ["pipe:1"]);
          const asked = stand.reports[0].to_ms - stand.reports[0].from_ms;
          assert.ok(Math.abs(asked - 60_000) < 3000, `${asked} ms`);
          const [file] = await Promise.all([
            page.waitForEvent("download"),
            page.click(".reports a"),
          ]);
          assert.equal(file.suggestedFilename(), "weir-serve-1.html");
          assert.match(readFileSync(await file.path(), "utf8"), /a report/);
          await page.click(".toolbar >> text=Record");
          await page.waitForSelector(".recording");
          // A recording goes on in other views.
          await page.evaluate(() => (location.hash = "#/"));
          await page.waitForSelector(".thing");
          await page.waitForFunction(() =>
            /Stop [1-9]/.test(document.querySelector(".recording").textContent),
          );
          await fits(page, "record", width, shots);
          await page.click(".recording");
          await page.waitForFunction(() => document.querySelectorAll(".reports a").length === 2);
          assert.deepEqual(JSON.parse(stand.reports[1].objects), ["pipe:1"]);
          assert.equal(await page.locator(".recording").count(), 0);
          for (let i = 0; i < 9; i++) {
            const before = stand.reports.length;
            await page.click(".toolbar >> text=Report");
            while (stand.reports.length === before) await page.waitForTimeout(20);
            await page.waitForFunction(
              () => !/being made/.test(document.querySelector(".reports").textContent),
            );
          }
          assert.equal(await page.locator(".reports a").count(), 8, "older links are forgotten");
          await page.done();
        });
      }
    }),

  "a recording that ends while a report is made has a report too": () =>
    withBrowser((browser) =>
      standIn({}, async (stand, address) => {
        const page = await open(browser);
        await enter(page, address, "#/o/pipe%3A1", ".uplot");
        await page.click(".toolbar >> text=Record");
        await page.waitForSelector(".recording");
        let answer;
        const asked = new Promise((done) => (answer = done));
        await page.route("**/v1/report?*", (route) => answer(route), { times: 1 });
        await page.click(".toolbar >> text=/^Report$/");
        const route = await asked;
        await page.click(".recording");
        assert.equal(await page.locator(".reports a").count(), 0);
        await route.continue();
        await page.waitForFunction(() => document.querySelectorAll(".reports a").length === 2);
        assert.equal(stand.reports.length, 2);
        await page.done();
      }),
    ),

  "the files of a plot have its values, in each form": () =>
    withBrowser((browser) =>
      standIn({}, async (_stand, address) => {
        for (const title of ["Throughput", "Packets waiting", "Queueing delay"]) {
          // Each title has a page of its own, because Chromium asks the user after a page has saved
          // ten files in quick succession.
          const page = await open(browser);
          await enter(page, address, "#/o/pipe%3A1", ".uplot");
          await page.waitForFunction(() => document.querySelectorAll(".uplot").length >= 4);
          await page.click(".toolbar >> text=Pause");
          const chart = page.locator(`.chart:has(h2:text-is("${title}"))`);
          const saved = async (form) => {
            await chart.locator("summary").click();
            const [file] = await Promise.all([
              page.waitForEvent("download"),
              chart.locator(`.menu button:has-text("${form}")`).click(),
            ]);
            assert.match(
              file.suggestedFilename(),
              new RegExp(`^pipe-1-[a-z-]+-\\d{6}\\.${form.toLowerCase()}$`),
            );
            return readFileSync(await file.path());
          };
          const rows = (await saved("CSV")).toString().trim().split("\n");
          const columns = rows[0].replace(/"[^"]*"/g, "").split(",").length;
          assert.ok(
            rows.length > 50 && columns >= 3,
            `${title}: ${rows.length} rows of ${columns}`,
          );
          assert.ok(
            rows.slice(1).every((row) => row.split(",").length === columns),
            title,
          );
          const values = rows.slice(1).flatMap((row) => row.split(",").slice(1).map(Number));
          assert.ok(
            values.some((value) => value > 0),
            `${title} has values`,
          );
          const parquet = await saved("Parquet");
          assert.equal(parquet.toString("latin1", parquet.length - 4), "PAR1");
          // Columns of doubles: eight bytes for each value, and some for the rest.
          const bytes = 8 * columns * (rows.length - 1);
          assert.ok(
            parquet.length > bytes && parquet.length < bytes + 4000,
            `${title}: ${parquet.length} bytes`,
          );
          const svg = (await saved("SVG")).toString();
          const parsed = await page.evaluate((text) => {
            const document = new DOMParser().parseFromString(text, "image/svg+xml");
            return {
              error: document.querySelector("parsererror")?.textContent,
              curves: document.querySelectorAll("g path").length,
              title: document.querySelector("title")?.textContent,
            };
          }, svg);
          assert.equal(parsed.error, undefined);
          assert.ok(
            parsed.curves >= columns - 1 && parsed.title === `pipe 1: ${title}`,
            JSON.stringify(parsed),
          );
          assert.doesNotMatch(svg, /NaN|undefined/);
          assert.ok(colours(await saved("PNG")) > 20, `${title}: the picture is not empty`);
          await page.done();
        }
      }),
    ),
};

/** Checks the form of a PNG; returns the number of different bytes in the data of its pixels. */
function colours(png) {
  assert.ok(png.subarray(0, 8).equals(Buffer.from([137, 80, 78, 71, 13, 10, 26, 10])));
  const data = [];
  let size;
  for (let at = 8; at < png.length;) {
    const length = png.readUInt32BE(at);
    const kind = png.toString("latin1", at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (kind === "IHDR") size = [body.readUInt32BE(0), body.readUInt32BE(4)];
    if (kind === "IDAT") data.push(body);
    at += 12 + length;
  }
  assert.ok(size[0] > 300 && size[1] > 200, `${size[0]} × ${size[1]} px`);
  return new Set(inflateSync(Buffer.concat(data))).size;
}
