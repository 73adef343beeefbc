// The buttons of reports, clicked in Chromium: each saves a file of its kind.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { open, withBrowser } from "./browser.mjs";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

export const tests = {
  "the buttons of a report save pictures and values": ({ weir }) => {
    if (!weir || !existsSync(weir)) return "there is no command weir; name it with --weir";
    return withBrowser(async (browser) => {
      const folder = mkdtempSync(join(tmpdir(), "weir-report-"));
      try {
        const report = join(folder, "report.html");
        execFileSync(weir, [
          "sim",
          join(ROOT, "experiments/two-hosts.toml"),
          "--quiet",
          "--report",
          report,
        ]);
        const page = await open(browser);
        await page.goto(pathToFileURL(report).href);
        const figure = page.locator("figure:has(.save)").first();
        const saved = async (button) => {
          const [file] = await Promise.all([page.waitForEvent("download"), button.click()]);
          return {
            name: file.suggestedFilename(),
            content: readFileSync(await file.path(), "latin1"),
          };
        };
        const picture = await saved(figure.locator(".save button", { hasText: "PNG" }));
        assert.match(picture.name, /^[a-z0-9-]+\.png$/);
        assert.ok(picture.content.startsWith("\u0089PNG"), picture.name);
        const values = await saved(figure.locator(".save button", { hasText: "CSV" }));
        assert.match(values.name, /^[a-z0-9-]+\.csv$/);
        const [head, first] = values.content.split("\r\n");
        assert.match(head, /^curve,x \(.*\),y \(.*\),high or end$/);
        assert.match(first, /^[^,]+,[-\d.e]+,[-\d.e]+/);
        const table = await saved(page.locator(".tools .save button:visible").first());
        assert.ok(table.content.trim().split("\r\n").length > 1, "a table has a head and rows");
        await page.done();
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });
  },
};
