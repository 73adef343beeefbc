// Runs the tests of the page and prints their results as Rust's test harness does.

import { parseArgs } from "node:util";
import { endBrowser } from "./browser.mjs";
import { tests as units } from "./units.mjs";
import { tests as looks } from "./looks.mjs";
import { tests as pictures } from "./pictures.mjs";
import { tests as reports } from "./reports.mjs";
import { tests as parts } from "./parts.mjs";
import { tests as faults } from "./faults.mjs";
import { tests as live } from "./live.mjs";
import { tests as liveParts } from "./live-parts.mjs";
import { tests as studies } from "./studies.mjs";
import { tests as access } from "./access.mjs";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { weir: { type: "string" }, shots: { type: "string" }, accept: { type: "boolean" } },
});
const all = {
  ...units,
  ...looks,
  ...pictures,
  ...parts,
  ...reports,
  ...faults,
  ...live,
  ...liveParts,
  ...studies,
  ...access,
};
let [passed, failed, ignored] = [0, 0, 0];
const failures = [];
for (const [name, test] of Object.entries(all)) {
  if (positionals.length && !positionals.some((word) => name.includes(word))) continue;
  const began = performance.now();
  try {
    const reason = await test(values);
    const seconds = ((performance.now() - began) / 1000).toFixed(3);
    if (typeof reason === "string") {
      ignored++;
      console.log(`test ${name} ... ignored, ${reason}`);
    } else {
      passed++;
      console.log(`test ${name} ... ok <${seconds}s>`);
    }
  } catch (error) {
    failed++;
    failures.push([name, error]);
    const seconds = ((performance.now() - began) / 1000).toFixed(3);
    console.log(`test ${name} ... FAILED <${seconds}s>`);
  }
}
await endBrowser();
if (failures.length) {
  console.log("\nfailures:\n");
  for (const [name, error] of failures)
    console.log(`---- ${name} stdout ----\n${error.stack ?? error}\n`);
  console.log(`failures:\n${failures.map(([name]) => `    ${name}`).join("\n")}`);
}
const verdict = failed ? "FAILED" : "ok";
console.log(
  `\ntest result: ${verdict}. ${passed} passed; ${failed} failed; ${ignored} ignored; 0 measured; 0 filtered out`,
);
process.exit(failed ? 1 : 0);
