// Scenarios: a text that the server's checker reads while it is typed, simulations with their
// progress and reports, and the comparison of two.

import type { Diagnostic } from "../api";
import type { App, View } from "../app";
import { flag, h, put, say, typed } from "../dom";
import { diagnostic } from "../form";
import { count } from "../format";
import {
  checkScenario,
  compareStudies,
  endStudy,
  listStudies,
  startStudy,
  why,
  type Check,
  type Studies,
  type Study,
} from "../studies";
import { words } from "../text";

/** What was typed, kept while other views are shown. */
const draft = { text: "", runs: "", seed: "" };

export function scenariosView(app: App): View {
  const editor = new Editor(app, () => void refresh());
  const shelf = new Shelf(app, () => void refresh());
  const note = h("p", { class: "note", hidden: true });
  const parts = h("div", null, editor.node, shelf.node);
  const node = h(
    "div",
    { class: "view scenarios" },
    h("h1", null, words.scenarios),
    h("p", { class: "note" }, words.scenariosHelp),
    note,
    parts,
  );
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed = false;
  let turn = 0;
  const refresh = async () => {
    clearTimeout(timer);
    const own = ++turn;
    let running = false;
    try {
      const studies = await listStudies();
      if (closed || own !== turn) return;
      parts.hidden = !studies.available;
      note.hidden = studies.available;
      say(note, studies.available ? "" : words.noStudies(studies.why ?? ""));
      editor.offer(studies);
      shelf.show(studies.studies);
      running = studies.studies.some((s) => s.state === "running");
    } catch {
      // The stream reports a lost connection.
    }
    if (!closed && own === turn) timer = setTimeout(() => void refresh(), running ? SOON : LATER);
  };
  void refresh();
  return {
    node,
    title: words.scenarios,
    pace: () => 1000,
    close: () => {
      closed = true;
      clearTimeout(timer);
      editor.close();
    },
  };
}

/** The text of a scenario with what the checker says about it. */
class Editor {
  readonly node: HTMLElement;
  private readonly pick = h("select", { id: "scenario-example" });
  private readonly area: HTMLTextAreaElement;
  private readonly runs: HTMLInputElement;
  private readonly seed: HTMLInputElement;
  private readonly report = h("div", { class: "report", "aria-live": "polite" });
  private readonly run: HTMLButtonElement;
  private readonly trouble = h("p", { class: "bad", role: "alert" });
  private readonly limits = h("p", { class: "remark" });
  private examples: Studies["examples"] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;

  constructor(
    private readonly app: App,
    private readonly started: () => void,
  ) {
    const field = (
      id: string,
      label: string,
      hint: string,
      value: string,
      keep: (text: string) => void,
    ) => {
      const input = h("input", {
        id,
        type: "text",
        inputmode: "numeric",
        placeholder: hint,
        autocomplete: "off",
        spellcheck: "false",
        value,
        oninput: (e: Event) => keep(typed(e)),
      });
      return { input, node: h("div", { class: "field" }, h("label", { for: id }, label), input) };
    };
    const runs = field(
      "scenario-runs",
      words.runsField,
      words.asInText,
      draft.runs,
      (text) => (draft.runs = text),
    );
    const seed = field(
      "scenario-seed",
      words.seedField,
      words.asInText,
      draft.seed,
      (text) => (draft.seed = text),
    );
    this.runs = runs.input;
    this.seed = seed.input;
    this.area = h("textarea", {
      id: "scenario-text",
      rows: 18,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      wrap: "off",
      oninput: () => {
        draft.text = this.area.value;
        this.checkSoon();
      },
      onkeydown: (e: KeyboardEvent) => {
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.start();
      },
    });
    this.area.value = draft.text;
    this.pick.addEventListener("change", () => {
      const example = this.examples.find((e) => e.name === this.pick.value);
      if (!example) return;
      draft.text = this.area.value = example.text;
      void this.check();
    });
    this.run = h("button", { type: "submit", class: "primary", disabled: true }, words.simulate);
    this.node = h(
      "form",
      { class: "change card two" },
      h(
        "fieldset",
        { class: "fields", disabled: !app.mayChange },
        h("legend", null, words.settings),
        h(
          "div",
          { class: "field" },
          h("label", { for: "scenario-example" }, words.example),
          this.pick,
        ),
        runs.node,
        seed.node,
        this.limits,
      ),
      h(
        "div",
        { class: "language" },
        h("label", { for: "scenario-text" }, words.scenarioText),
        this.area,
        this.report,
        this.trouble,
        h(
          "div",
          { class: "buttons" },
          this.run,
          h(
            "span",
            { class: "remark" },
            app.mayChange ? words.simulateKeys : words.readOnlyStudies,
          ),
        ),
      ),
    );
    flag(this.area, "long", true);
    this.area.readOnly = !app.mayChange;
    this.node.addEventListener("submit", (e) => {
      e.preventDefault();
      void this.start();
    });
    if (draft.text && app.mayChange) void this.check();
  }

  close(): void {
    clearTimeout(this.timer);
    this.asked++;
  }

  /** Shows the examples; the first one is the text to begin with. */
  offer(studies: Studies): void {
    if (this.examples.length || !studies.examples.length) return;
    this.examples = studies.examples;
    const { limits } = studies;
    put(
      this.pick,
      h("option", { value: "" }, words.chooseExample),
      ...this.examples.map((e) => h("option", { value: e.name }, e.name)),
    );
    if (limits)
      say(
        this.limits,
        words.studyLimits(
          count(limits.runs),
          count(limits.processor_s),
          count(limits.memory_bytes / 2 ** 20),
          count(limits.kept),
        ),
      );
    if (draft.text) return;
    this.pick.value = this.examples[0]!.name;
    draft.text = this.area.value = this.examples[0]!.text;
    if (this.app.mayChange) void this.check();
  }

  private checkSoon(): void {
    clearTimeout(this.timer);
    this.pick.value = "";
    this.timer = setTimeout(() => void this.check(), CHECK_AFTER);
  }

  private async check(): Promise<void> {
    const turn = ++this.asked;
    clearTimeout(this.timer);
    say(this.trouble, "");
    if (!this.area.value.trim()) {
      put(this.report);
      this.run.disabled = true;
      return;
    }
    try {
      const checked = await checkScenario(this.area.value);
      if (turn === this.asked) this.tell(checked);
    } catch (error) {
      if (turn !== this.asked) return;
      put(this.report);
      say(this.trouble, why(error, words.notSent));
      this.run.disabled = !this.app.mayChange;
    }
  }

  private tell(checked: Check): void {
    const wrong = checked.diagnostics.some((d) => d.severity === "error");
    this.run.disabled = wrong || checked.refusal !== null || !this.app.mayChange;
    put(
      this.report,
      ...checked.diagnostics.map((d) => this.at(d)),
      checked.refusal && h("p", { class: "bad" }, checked.refusal),
      !wrong &&
        checked.refusal === null &&
        h("p", { class: "good" }, words.scenarioCorrect(checked.runs)),
      !wrong &&
        checked.summary &&
        h(
          "details",
          { class: "fold" },
          h("summary", null, words.summary),
          h("pre", { tabindex: "0" }, checked.summary),
        ),
    );
  }

  /** A diagnostic with a button that selects its line. */
  private at(d: Diagnostic): HTMLElement {
    const node = diagnostic(d);
    if (d.line > 0)
      node.prepend(
        h(
          "button",
          { type: "button", class: "small", onclick: () => this.select(d.line) },
          words.line(d.line),
        ),
      );
    return node;
  }

  private select(line: number): void {
    const lines = this.area.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
    const height = this.area.scrollHeight / Math.max(1, lines.length);
    this.area.scrollTop = Math.max(0, (line - 4) * height);
  }

  private async start(): Promise<void> {
    if (this.run.disabled) return;
    const study: { text: string; runs?: number; seed?: number } = { text: this.area.value };
    for (const [input, key] of [
      [this.runs, "runs"],
      [this.seed, "seed"],
    ] as const) {
      const text = input.value.trim();
      const right = text === "" || /^\d{1,15}$/.test(text);
      flag(input, "wrong", !right);
      if (!right) {
        say(this.trouble, words.wholeNumber(key === "runs" ? words.runsField : words.seedField));
        input.focus();
        return;
      }
      if (text) study[key] = Number(text);
    }
    try {
      await startStudy(study);
      say(this.trouble, "");
      this.started();
    } catch (error) {
      say(this.trouble, why(error, words.notSent));
    }
  }
}

/** The studies that the server keeps, and the comparison of two. */
class Shelf {
  readonly node: HTMLElement;
  private readonly list = h("div", { class: "studies" });
  private readonly empty = h("p", { class: "note" }, words.noStudyYet);
  private readonly button = h(
    "button",
    { type: "button", class: "primary", disabled: true },
    words.compare,
  );
  private readonly result = h("div", { "aria-live": "polite" });
  private readonly cards = new Map<number, StudyCard>();
  /** The numbers of the studies to compare, in the order in which they were chosen. */
  private chosen: number[] = [];

  constructor(
    private readonly app: App,
    private readonly changed: () => void,
  ) {
    this.button.addEventListener("click", () => void this.compare());
    this.node = h(
      "section",
      { class: "card changes" },
      h("h2", null, words.studies),
      this.empty,
      this.list,
      h(
        "div",
        { class: "buttons" },
        this.button,
        h("span", { class: "remark" }, words.compareHelp),
      ),
      this.result,
    );
  }

  show(studies: Study[]): void {
    const present = new Set(studies.map((s) => s.number));
    for (const [number, card] of this.cards) {
      if (present.has(number)) continue;
      card.node.remove();
      this.cards.delete(number);
    }
    for (const study of studies) {
      let card = this.cards.get(study.number);
      if (!card) {
        card = new StudyCard(
          this.app,
          study.number,
          (on) => this.choose(study.number, on),
          this.changed,
        );
        this.cards.set(study.number, card);
        // The newest is on top.
        this.list.prepend(card.node);
      }
      card.show(study);
    }
    this.empty.hidden = studies.length > 0;
    this.chosen = this.chosen.filter((n) => present.has(n));
    this.mark();
  }

  private choose(number: number, on: boolean): void {
    this.chosen = this.chosen.filter((n) => n !== number);
    if (on) this.chosen.push(number);
    // A third choice replaces the oldest.
    if (this.chosen.length > 2) this.chosen.shift();
    this.mark();
  }

  private mark(): void {
    for (const [number, card] of this.cards) card.check(this.chosen.includes(number));
    this.button.disabled = this.chosen.length !== 2;
  }

  private async compare(): Promise<void> {
    // The newer study is compared with the older one.
    const [left, right] = [...this.chosen].sort((a, b) => a - b);
    if (left === undefined || right === undefined) return;
    try {
      const comparison = await compareStudies(left, right);
      const head = [
        "",
        words.leftSide,
        words.rightSide,
        words.difference,
        words.relative,
        words.significance,
      ];
      const rows = comparison.blocks.flatMap(({ name, rows: own }) => [
        h("tr", { class: "block" }, h("th", { scope: "rowgroup", colspan: head.length }, name)),
        ...own.map((cells) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, cells[0]),
            ...cells.slice(1).map((cell) => h("td", null, cell)),
          ),
        ),
      ]);
      put(
        this.result,
        h("h2", null, words.comparisonOf(left, right)),
        h(
          "p",
          { class: "note" },
          `${words.leftSide}: ${comparison.sides[0]}`,
          h("br"),
          `${words.rightSide}: ${comparison.sides[1]}`,
        ),
        h(
          "div",
          {
            class: "scroll",
            tabindex: "0",
            role: "region",
            "aria-label": words.comparisonOf(left, right),
          },
          h(
            "table",
            { class: "numbers" },
            h(
              "thead",
              null,
              h(
                "tr",
                null,
                ...head.map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))),
              ),
            ),
            h("tbody", null, ...rows),
          ),
        ),
        comparison.only_left.length > 0 &&
          h("p", { class: "note" }, words.onlyOn(words.leftSide, comparison.only_left.join(", "))),
        comparison.only_right.length > 0 &&
          h(
            "p",
            { class: "note" },
            words.onlyOn(words.rightSide, comparison.only_right.join(", ")),
          ),
        ...comparison.remark
          .trim()
          .split("\n")
          .map((line) => h("p", { class: "remark" }, line)),
      );
    } catch (error) {
      put(this.result, h("p", { class: "bad", role: "alert" }, why(error, words.notSent)));
    }
  }
}

/** One study: how far it is, and what can be done with it. */
class StudyCard {
  readonly node: HTMLElement;
  private readonly name = h("strong");
  private readonly state = h("span", { class: "pill" });
  private readonly progress: HTMLProgressElement;
  private readonly detail = h("span", { class: "remark" });
  private readonly error = h("p", { class: "bad" });
  private readonly tables = h("pre", { tabindex: "0" });
  private readonly fold = h(
    "details",
    { class: "fold", hidden: true },
    h("summary", null, words.tables),
    this.tables,
  );
  private readonly report: HTMLAnchorElement;
  private readonly results: HTMLAnchorElement;
  private readonly end: HTMLButtonElement;
  private readonly box: HTMLInputElement;
  private readonly boxed: HTMLElement;

  constructor(app: App, number: number, choose: (on: boolean) => void, changed: () => void) {
    this.progress = h("progress", { max: "1", value: "0", "aria-label": words.progressOf(number) });
    this.report = h(
      "a",
      { href: `/v1/studies/${number}/report`, target: "_blank", rel: "noopener" },
      words.reportLink,
    );
    this.results = h(
      "a",
      { href: `/v1/studies/${number}/results`, download: `study-${number}.json` },
      words.resultsLink,
    );
    this.end = h("button", {
      type: "button",
      class: "small",
      disabled: !app.mayChange,
      onclick: () => void endStudy(number).then(changed, changed),
    });
    this.box = h("input", { type: "checkbox", onchange: () => choose(this.box.checked) });
    this.boxed = h("label", { class: "check" }, this.box, words.compareThis);
    this.node = h(
      "article",
      { class: "study" },
      h(
        "p",
        { class: "line" },
        h("span", { class: "number" }, `#${number}`),
        this.name,
        this.state,
        this.detail,
      ),
      this.progress,
      this.error,
      h("p", { class: "line" }, this.report, this.results, this.boxed, this.end),
      this.fold,
    );
  }

  show(study: Study): void {
    const { state } = study;
    const done = state === "done";
    say(this.name, study.name || words.unnamedStudy);
    say(this.state, words.studyStates[state]);
    this.state.className = `pill ${done ? "good" : state === "failed" ? "bad" : ""}`;
    this.progress.hidden = state !== "running";
    this.progress.value = study.part;
    const time = words.secondsTaken(study.seconds.toFixed(study.seconds < 10 ? 1 : 0));
    say(
      this.detail,
      state === "running"
        ? words.studyProgress(
            Math.floor(100 * study.part),
            count(study.finished),
            count(study.runs),
            count(study.events),
            time,
          )
        : done
          ? words.studyDone(count(study.runs), count(study.events), time)
          : time,
    );
    this.error.hidden = study.error === null;
    say(this.error, study.error ?? "");
    this.report.hidden = this.results.hidden = !done;
    this.boxed.hidden = !done || !study.comparable;
    say(this.end, state === "running" ? words.endStudy : words.forgetStudy);
    this.end.setAttribute("aria-label", `${this.end.textContent ?? ""} #${study.number}`);
    this.fold.hidden = study.tables === null;
    say(this.tables, study.tables ?? "");
  }

  check(on: boolean): void {
    if (this.box.checked !== on) this.box.checked = on;
  }
}

/** The pause after the last key before the text is checked, ms. */
const CHECK_AFTER = 250;
/** The time between two requests for the studies, while one runs and otherwise, ms. */
const SOON = 400;
const LATER = 5000;
