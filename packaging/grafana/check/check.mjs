// Compares the dashboard with a JSON schema of Grafana's own types: unknown fields, wrong values and
// missing ones are errors. It also checks what no type says.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv } from "ajv";
import { createGenerator } from "ts-json-schema-generator";

const here = dirname(fileURLToPath(import.meta.url));
const dashboard = JSON.parse(readFileSync(process.argv[2] ?? join(here, "../weir.json"), "utf8"));

const schema = createGenerator({
  path: join(here, "dashboard.ts"),
  type: "Weir",
  skipTypeCheck: true,
  additionalProperties: false,
}).createSchema("Weir");
const ajv = new Ajv({ allErrors: true, strict: false, verbose: true });
const matches = ajv.compile(schema);

/**
 * What the schema finds wrong, in words. A panel is compared with every kind of panel; the errors
 * of kinds other than its own are left out.
 */
function wrong(value) {
  if (matches(value)) return [];
  const kind = (e) => `${e.instancePath.split("/").slice(0, 3).join("/")} ${e.schemaPath.split("/").slice(0, 3).join("/")}`;
  const other = new Set(matches.errors.filter((e) => /^\/panels\/\d+\/type$/.test(e.instancePath)).map(kind));
  const errors = matches.errors.filter((e) => !other.has(kind(e)) && e.keyword !== "anyOf");
  return (errors.length ? errors : matches.errors).map((e) => `${e.instancePath || "/"} ${e.message} ${JSON.stringify(e.params)}`);
}

const tests = {
  "the dashboard follows Grafana's own types"() {
    assert.deepEqual(wrong(dashboard), []);
  },
  "a field that Grafana does not know, and a wrong value, are found"() {
    for (const spoil of [
      (d) => (d.refreshs = "5s"),
      (d) => (d.panels[1].fieldConfig.defaults.custom.lineWidht = 1),
      (d) => (d.panels[1].fieldConfig.defaults.custom.showPoints = "sometimes"),
      (d) => (d.panels[1].options.legend.placement = "left"),
      (d) => delete d.panels[1].gridPos,
      (d) => (d.templating.list[0].type = "datasources"),
    ]) {
      const spoiled = structuredClone(dashboard);
      spoil(spoiled);
      assert.notDeepEqual(wrong(spoiled), [], String(spoil));
    }
  },
  "panels have numbers of their own, and none lies on another"() {
    const { panels } = dashboard;
    assert.equal(new Set(panels.map((panel) => panel.id)).size, panels.length);
    const cells = new Map();
    for (const { title, gridPos: { x, y, w, h } } of panels) {
      assert.ok(x + w <= 24, `${title} is wider than the grid`);
      for (let i = x; i < x + w; i++) {
        for (let j = y; j < y + h; j++) {
          assert.ok(!cells.has(`${i} ${j}`), `${title} lies on ${cells.get(`${i} ${j}`)}`);
          cells.set(`${i} ${j}`, title);
        }
      }
    }
  },
  "every variable is used, and no other one"() {
    const { templating, panels } = dashboard;
    const known = templating.list.map((variable) => variable.name);
    const text = JSON.stringify([panels, templating]);
    const used = new Set([...text.matchAll(/\$\{?(\w+)/g)].map(([, name]) => name));
    // Grafana itself defines these two.
    for (const name of ["__rate_interval", "__all"]) used.delete(name);
    assert.deepEqual([...used].sort(), [...known].sort());
    assert.ok(Object.values(panels).every((panel) => new Set((panel.targets ?? []).map((t) => t.refId)).size === (panel.targets ?? []).length));
  },
};

const failures = [];
for (const [name, test] of Object.entries(tests)) {
  try {
    test();
    console.log(`test ${name} ... ok`);
  } catch (error) {
    failures.push([name, error]);
    console.log(`test ${name} ... FAILED`);
  }
}
if (failures.length) {
  console.log("\nfailures:\n");
  for (const [name, error] of failures) console.log(`---- ${name} stdout ----\n${error.message}\n`);
  console.log(`failures:\n${failures.map(([name]) => `    ${name}`).join("\n")}`);
}
const passed = Object.keys(tests).length - failures.length;
const verdict = failures.length ? "FAILED" : "ok";
console.log(`\ntest result: ${verdict}. ${passed} passed; ${failures.length} failed; 0 ignored; 0 measured; 0 filtered out`);
process.exit(failures.length ? 1 : 0);
