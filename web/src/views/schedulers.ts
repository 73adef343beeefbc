// Schedulers side by side: what each gives to each flow over time, against the fluid. The rig
// computes it for the schedulers, flows and arrivals that are chosen.

import { get, post } from "../api";
import type { App, View } from "../app";
import { CurvePlot, type Line } from "../curves";
import { h, put, say, typed } from "../dom";
import { count, text } from "../format";
import { why } from "../studies";
import { words } from "../text";

interface Choice {
  algorithms: { name: string; summary: string }[];
  limits: { algorithms: number; flows: number; packets: number };
}

interface Answer {
  /** Bytes that the link has sent, at each point of the curves. */
  times: number[];
  /** Bytes that the fluid gives to each flow, at each point. */
  fluid: number[][];
  flows: { weight: number; lengths: string; class: number }[];
  algorithms: {
    name: string;
    served: number[][];
    jain: number;
    classes: {
      bwfi_bytes: number;
      bound_bytes: number | null;
      lag_bytes: number;
      lead_bytes: number;
      delay_bytes: number;
    }[];
  }[];
}

interface Flow {
  weight: number;
  lengths: string;
}

/** What was chosen, kept while other views are shown. */
const chosen = {
  algorithms: ["fifo", "drr", "wf2q+"],
  other: "",
  flows: [
    { weight: 1, lengths: "l1500" },
    { weight: 2, lengths: "l1500" },
    { weight: 4, lengths: "l300" },
  ] as Flow[],
  load: "backlogged",
  packets: 120,
  seed: 1,
  ahead: false,
};

export function schedulersView(app: App): View {
  const trouble = h("p", { class: "bad", role: "alert" });
  const summary = h("p", { class: "note", "aria-live": "polite" });
  const boxes = h("div", { class: "boxes" });
  const flows = h("div", { class: "flows" });
  const plots = h("div", { class: "plots" });
  const table = h("div", {
    class: "scroll",
    tabindex: "0",
    role: "region",
    "aria-label": words.bounds,
    hidden: true,
  });
  let limits: Choice["limits"] = { algorithms: 6, flows: 16, packets: 5000 };
  let shown: CurvePlot[] = [];
  let answer: Answer | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asked = 0;
  const add = h(
    "button",
    {
      type: "button",
      class: "small",
      onclick: () => {
        chosen.flows.push({ weight: 1, lengths: "l1500" });
        list();
        soon();
      },
    },
    words.addFlow,
  );
  const other = h("input", {
    id: "other-alg",
    type: "text",
    placeholder: "qfq+:m=1",
    value: chosen.other,
    spellcheck: "false",
    autocomplete: "off",
    oninput: (e: Event) => {
      chosen.other = typed(e).trim();
      soon();
    },
  });
  const load = h(
    "select",
    {
      id: "load",
      onchange: (e: Event) => {
        chosen.load = typed(e);
        soon();
      },
    },
    ...Object.entries(words.loads).map(([value, name]) =>
      h("option", { value, selected: value === chosen.load }, name),
    ),
  );
  const packets = slider(
    "packets",
    words.packetsTitle,
    20,
    2000,
    () => chosen.packets,
    (n) => (chosen.packets = n),
    () => soon(),
  );
  const seed = slider(
    "seed",
    words.seedField,
    1,
    50,
    () => chosen.seed,
    (n) => (chosen.seed = n),
    () => soon(),
  );
  const modes = [false, true].map((ahead) =>
    h(
      "button",
      {
        type: "button",
        class: "small",
        onclick: () => {
          chosen.ahead = ahead;
          draw();
        },
      },
      ahead ? words.aheadOfFluid : words.serviceCurve,
    ),
  );
  const form = h(
    "form",
    {
      class: "change card two explorer",
      onsubmit: (e: Event) => {
        e.preventDefault();
        soon(0);
      },
    },
    h(
      "fieldset",
      { class: "fields", disabled: !app.mayChange },
      h("legend", null, words.flowsTitle),
      flows,
      h("div", { class: "buttons" }, add),
      h("div", { class: "field" }, h("label", { for: "load" }, words.load), load),
      packets,
      seed,
    ),
    h(
      "fieldset",
      { class: "fields", disabled: !app.mayChange },
      h("legend", null, words.schedulers),
      boxes,
      h("div", { class: "field" }, h("label", { for: "other-alg" }, words.withSettings), other),
      !app.mayChange && h("p", { class: "remark" }, words.readOnlyCurves),
    ),
  );
  const node = h(
    "div",
    { class: "view schedulers" },
    h("h1", null, words.sideBySide),
    h("p", { class: "note" }, words.sideBySideHelp),
    form,
    trouble,
    h(
      "div",
      { class: "toolbar", role: "toolbar", "aria-label": words.whatIsDrawn },
      h("span", { class: "group" }, ...modes),
      summary,
    ),
    plots,
    table,
  );

  const list = () => {
    add.disabled = chosen.flows.length >= limits.flows;
    put(
      flows,
      ...chosen.flows.map((flow, i) => {
        const name = words.flowNumber(i + 1);
        const number = h("output", { class: "num" }, String(flow.weight));
        const weight = h("input", {
          type: "range",
          min: 1,
          max: 16,
          value: flow.weight,
          "aria-label": `${name}: ${words.weight}`,
          oninput: (e: Event) => {
            flow.weight = Number(typed(e));
            say(number, String(flow.weight));
            soon();
          },
        });
        const lengths = h(
          "select",
          {
            "aria-label": `${name}: ${words.packetLengths}`,
            class: "small",
            onchange: (e: Event) => {
              flow.lengths = typed(e);
              soon();
            },
          },
          ...LENGTHS.map((value) =>
            h(
              "option",
              { value, selected: value === flow.lengths },
              words.lengthNames[value] ?? `${value.slice(1)} B`,
            ),
          ),
        );
        const remove = h(
          "button",
          {
            type: "button",
            class: "small",
            title: words.removeFlow,
            "aria-label": `${words.removeFlow} ${i + 1}`,
            disabled: chosen.flows.length <= 1,
            onclick: () => {
              chosen.flows.splice(i, 1);
              list();
              soon();
            },
          },
          "×",
        );
        return h(
          "div",
          { class: "flow" },
          h("span", { class: "name" }, name),
          h("label", null, h("span", { class: "remark" }, words.weight), weight),
          number,
          lengths,
          remove,
        );
      }),
    );
  };
  const soon = (after = COMPUTE_AFTER) => {
    clearTimeout(timer);
    if (app.mayChange) timer = setTimeout(() => void compute(), after);
  };
  const compute = async () => {
    const turn = ++asked;
    const algorithms = [...chosen.algorithms, ...(chosen.other ? [chosen.other] : [])];
    if (!algorithms.length) {
      say(trouble, words.chooseOne);
      return;
    }
    try {
      const request = {
        algorithms,
        flows: chosen.flows.map((f) => `1:w${f.weight}:${f.lengths}`).join(","),
        load: chosen.load,
        packets: chosen.packets,
        seed: chosen.seed,
      };
      const computed = await post<Answer>("/v1/curves", request);
      if (turn !== asked) return;
      answer = computed;
      say(trouble, "");
      draw();
    } catch (error) {
      if (turn === asked) say(trouble, why(error, words.notSent));
    }
  };
  const draw = () => {
    modes.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(chosen.ahead === (i === 1))),
    );
    if (!answer) return;
    const { times, fluid, algorithms } = answer;
    const lines = (flow: number): Line[] => {
      const own: Line[] = algorithms.map((one, i) => ({
        name: one.name,
        colour: HUES[i % HUES.length],
        ...(DASHES[i % DASHES.length] ? { dash: DASHES[i % DASHES.length] } : {}),
        values: chosen.ahead
          ? one.served[flow]!.map((bytes, k) => bytes - fluid[flow]![k]!)
          : one.served[flow]!,
      }));
      const ideal: Line = {
        name: words.fluid,
        colour: undefined,
        dash: "2 4",
        values: chosen.ahead ? times.map(() => 0) : fluid[flow]!,
      };
      return [...own, ideal];
    };
    const all = fluid.map((_, flow) => lines(flow));
    const values = all.flat().flatMap((line) => line.values);
    const high = Math.max(1, ...values);
    const low = Math.min(0, ...values);
    while (shown.length > fluid.length) {
      const plot = shown.pop()!;
      plot.close();
      plot.node.remove();
    }
    while (shown.length < fluid.length) {
      const plot = new CurvePlot();
      shown.push(plot);
      plots.append(plot.node);
    }
    const total = answer.flows.reduce((sum, f) => sum + f.weight, 0);
    shown.forEach((plot, flow) => {
      const { weight, lengths } = answer!.flows[flow]!;
      plot.show({
        title: words.flowTitle(
          flow + 1,
          weight,
          total,
          words.lengthNames[lengths] ?? `${lengths.slice(1)} B`,
        ),
        description: chosen.ahead ? words.aheadLong : words.serviceLong,
        xName: words.sentByLink,
        xUnit: "bytes",
        yUnit: "bytes",
        x: times,
        lines: all[flow]!,
        range: [low, high],
      });
    });
    say(summary, words.curvesOf(count(times[times.length - 1] ?? 0)));
    // Each class of the request has one flow.
    const head = [
      words.scheduler,
      words.flow,
      words.mostBehind,
      words.mostAhead,
      words.bwfi,
      words.bound,
      words.longestDelay,
    ];
    const rows = algorithms.flatMap((one) =>
      one.classes.map((c, i) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, one.name),
          h("td", null, words.flowNumber(i + 1)),
          ...[c.lag_bytes, c.lead_bytes, c.bwfi_bytes, c.bound_bytes, c.delay_bytes].map((bytes) =>
            h("td", null, bytes === null ? words.noBound : text(bytes, "bytes")),
          ),
        ),
      ),
    );
    put(
      table,
      h(
        "table",
        { class: "numbers" },
        h("thead", null, h("tr", null, ...head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, ...rows),
      ),
    );
    table.hidden = false;
  };
  const begin = async () => {
    try {
      const choice = await get<Choice>("/v1/curves");
      limits = choice.limits;
      put(
        boxes,
        ...choice.algorithms.map(({ name, summary: about }) => {
          const box = h("input", {
            type: "checkbox",
            checked: chosen.algorithms.includes(name),
            onchange: (e: Event) => {
              chosen.algorithms = chosen.algorithms.filter((n) => n !== name);
              if ((e.target as HTMLInputElement).checked) chosen.algorithms.push(name);
              soon();
            },
          });
          return h("label", { class: "check", title: about }, box, name);
        }),
      );
      list();
      soon(0);
    } catch (error) {
      say(trouble, why(error, words.notSent));
    }
  };
  list();
  draw();
  void begin();
  return {
    node,
    title: words.sideBySide,
    pace: () => 1000,
    close: () => {
      asked++;
      clearTimeout(timer);
      for (const plot of shown) plot.close();
      shown = [];
    },
  };
}

/** A slider, and its number, which can be typed. */
function slider(
  id: string,
  label: string,
  least: number,
  most: number,
  value: () => number,
  set: (n: number) => void,
  changed: () => void,
): HTMLElement {
  const box = h("input", {
    id,
    type: "text",
    inputmode: "numeric",
    class: "number",
    value: value(),
    autocomplete: "off",
  });
  const range = h("input", {
    type: "range",
    min: least,
    max: most,
    value: value(),
    "aria-label": label,
  });
  range.addEventListener("input", () => {
    set(Number(range.value));
    box.value = range.value;
    box.classList.remove("wrong");
    changed();
  });
  box.addEventListener("input", () => {
    const number = /^\d{1,6}$/.test(box.value.trim()) ? Number(box.value) : NaN;
    const right = number >= least && number <= most;
    box.classList.toggle("wrong", !right);
    if (!right) return;
    set(number);
    range.value = String(number);
    changed();
  });
  return h("div", { class: "field slide" }, h("label", { for: id }, label), range, box);
}

/** Packet lengths, in the notation of the rig. */
const LENGTHS = ["l64", "l300", "l576", "l1500", "bimodal", "imix"];
/** The colours and dashes of schedulers. */
const HUES = [0, 1, 2, 3, 6, 5];
const DASHES: (string | undefined)[] = [undefined, "7 3", "3 3", undefined, "7 3", "3 3"];
/** The pause after the last change before the curves are computed, ms. */
const COMPUTE_AFTER = 200;
