// Changing an object: fields and the words of the language side by side. The server checks the
// words while they are typed.

import { change, post, Refused, type ChangeReply, type Diagnostic, type Thing } from "./api";
import type { App } from "./app";
import { flag, h, put } from "./dom";
import { body, head, rate, rateWords, set, value } from "./spec";
import { words } from "./text";

interface Field {
  keyword: string;
  label: string;
  hint: string;
  /** The value that a link gets when its field is emptied. */
  neutral: string;
  input: HTMLInputElement;
}

/** A form for one object, or, without an object, for commands of any kind. */
export class Form {
  readonly node: HTMLElement;
  private readonly fields: Field[] = [];
  private readonly area: HTMLTextAreaElement;
  private readonly report = h("div", { class: "report", "aria-live": "polite" });
  private readonly apply: HTMLButtonElement;
  private readonly undo: HTMLButtonElement;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;
  private touched = false;
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly app: App,
    private thing: Thing | undefined,
    script = "",
  ) {
    const id = `form-${++forms}`;
    this.area = h("textarea", {
      id,
      rows: thing ? 3 : script ? script.split("\n").length + 1 : 8,
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      placeholder: thing ? "" : words.scriptExample,
      disabled: !app.mayChange,
      oninput: () => this.typed(),
      onkeydown: (e: KeyboardEvent) => {
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void this.send();
      },
    });
    this.apply = h("button", { type: "submit", class: "primary", disabled: true }, words.apply);
    this.undo = h(
      "button",
      { type: "button", disabled: true, onclick: () => void this.takeBack() },
      words.undo,
    );
    const fields =
      thing && thing.kind !== "lane" && thing.kind !== "path" ? this.build(thing, id) : undefined;
    this.node = h(
      "form",
      { class: `change card ${fields ? "two" : ""}` },
      fields,
      h(
        "div",
        { class: "language" },
        h("label", { for: id }, thing ? words.inLanguage : words.commands),
        this.area,
        this.report,
        h(
          "div",
          { class: "buttons" },
          this.apply,
          this.undo,
          h("span", { class: "remark" }, app.mayChange ? words.applyKeys : words.readOnlyLong),
        ),
      ),
    );
    this.node.addEventListener("submit", (e) => {
      e.preventDefault();
      void this.send();
    });
    this.reset();
    if (script) {
      this.area.value = script;
      this.checkSoon();
    }
    this.stops.push(
      app.on("things", () => this.refresh()),
      app.on("changes", () => this.showUndo()),
    );
    this.showUndo();
  }

  close(): void {
    clearTimeout(this.timer);
    for (const stop of this.stops) stop();
  }

  private build(thing: Thing, id: string): HTMLElement {
    const list =
      thing.kind === "queue"
        ? [
            ["weight", words.weight, "1 … 100", "1"],
            ["queue", words.queueSize, "50, 64KB", "50"],
          ]
        : thing.kind === "sched"
          ? [
              ["bw", words.rate, "10Mbit/s", "unlimited"],
              ["delay", words.delay, "20ms", "0"],
            ]
          : [
              ["bw", words.rate, "4Mbit/s", "unlimited"],
              ["delay", words.delay, "20ms", "0"],
              ["queue", words.queueSize, "50, 64KB", "50"],
              ["loss", words.loss, "1%", "0"],
            ];
    const node = h(
      "fieldset",
      { class: "fields", disabled: !this.app.mayChange },
      h("legend", null, words.settings),
    );
    for (const [keyword, label, hint, neutral] of list as [string, string, string, string][]) {
      const input = h("input", {
        id: `${id}-${keyword}`,
        type: "text",
        placeholder: hint,
        spellcheck: "false",
        autocomplete: "off",
        oninput: () => this.fromFields(),
      });
      this.fields.push({ keyword, label, hint, neutral, input });
      const quick =
        keyword === "bw"
          ? h(
              "span",
              { class: "group" },
              this.factor(input, 0.5, "÷2", words.half),
              this.factor(input, 2, "×2", words.double),
            )
          : null;
      node.append(h("div", { class: "field" }, h("label", { for: input.id }, label), input, quick));
    }
    return node;
  }

  private factor(input: HTMLInputElement, by: number, sign: string, label: string): HTMLElement {
    const act = () => {
      const present = rate(input.value);
      if (!present) return;
      input.value = rateWords(present * by);
      this.fromFields();
    };
    return h(
      "button",
      {
        type: "button",
        class: "small",
        title: label,
        "aria-label": `${sign} ${label}`,
        onclick: act,
      },
      sign,
    );
  }

  /** Shows the object as it is. */
  private reset(): void {
    const { thing } = this;
    this.touched = false;
    if (!thing) return;
    const spec = body(thing);
    for (const field of this.fields) {
      field.input.value = value(spec, field.keyword) ?? "";
      flag(field.input, "changed", false);
    }
    this.area.value = this.commands() ? `${head(thing)} ${spec}`.trim() : spec;
    this.apply.disabled = true;
  }

  private commands(): boolean {
    return this.app.page.language === "commands";
  }

  private refresh(): void {
    if (!this.thing) return;
    this.thing = this.app.thing(this.thing.object) ?? this.thing;
    if (!this.touched) this.reset();
  }

  /** The fields have changed: the words follow them. */
  private fromFields(): void {
    const thing = this.thing!;
    const spec = body(thing);
    let whole = this.commands() ? this.area.value.slice(head(thing).length).trim() : spec;
    const changed: string[] = [];
    for (const field of this.fields) {
      const text = field.input.value.trim().replace(/\s+/g, "");
      const before = value(spec, field.keyword) ?? "";
      flag(field.input, "changed", text !== before);
      whole = set(whole, field.keyword, text);
      if (text !== before) changed.push(`${field.keyword} ${text || field.neutral}`);
    }
    // A running link takes only the words that change; a command sets the whole pipe.
    this.area.value = this.commands() ? `${head(thing)} ${whole}` : changed.join(" ");
    this.checkSoon();
  }

  /** The words have changed: the fields follow them. */
  private typed(): void {
    for (const field of this.fields) {
      const text = value(this.area.value, field.keyword);
      if (text !== undefined) {
        field.input.value = text;
        flag(field.input, "changed", text !== (value(body(this.thing!), field.keyword) ?? ""));
      }
    }
    this.checkSoon();
  }

  private checkSoon(): void {
    this.touched = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.check(), CHECK_AFTER);
  }

  private target(): string | undefined {
    return this.thing?.kind === "link" && !this.commands() ? this.thing.name : undefined;
  }

  private async check(): Promise<void> {
    const turn = ++this.asked;
    const text = this.area.value.trim();
    if (!text) {
      put(this.report);
      this.apply.disabled = true;
      return;
    }
    try {
      const reply = await change(text, this.target(), true);
      if (turn !== this.asked) return;
      const refused = reply.diagnostics.some((d) => d.severity === "error");
      this.apply.disabled = refused || !this.app.mayChange;
      this.tell(reply, refused ? undefined : words.wouldBe);
    } catch (error) {
      if (turn === this.asked) this.trouble(error);
    }
  }

  private async send(): Promise<void> {
    clearTimeout(this.timer);
    const text = this.area.value.trim();
    if (!text || !this.app.mayChange) return;
    this.asked++;
    this.apply.disabled = true;
    try {
      const reply = await change(text, this.target(), false);
      this.tell(reply, reply.applied ? words.applied : undefined);
      if (!reply.applied) return;
      await this.app.load();
      if (this.thing) {
        this.thing = this.app.thing(this.thing.object) ?? this.thing;
        this.reset();
      }
    } catch (error) {
      this.trouble(error);
    }
  }

  private async takeBack(): Promise<void> {
    const last = this.last();
    if (last === undefined) return;
    try {
      const reply = await post<ChangeReply>("/v1/undo", { change: last });
      this.tell(reply, words.undone);
      await this.app.load();
      if (this.thing) {
        this.thing = this.app.thing(this.thing.object) ?? this.thing;
        this.reset();
      }
    } catch (error) {
      this.trouble(error);
    }
  }

  private last(): number | undefined {
    return lastChange(this.app);
  }

  private showUndo(): void {
    const last = this.last();
    this.undo.disabled = last === undefined || !this.app.mayChange || !this.app.can("undo");
    const what = this.app.changes.find((c) => c.number === last)?.what;
    this.undo.title = what === undefined ? "" : words.undoes(what);
  }

  private tell(reply: ChangeReply, good: string | undefined): void {
    const became = (reply.links ?? [])
      .map((l) => `${l.name}: ${l.spec || words.perfect}`)
      .concat(reply.commands ?? []);
    put(
      this.report,
      ...reply.diagnostics.map(diagnostic),
      good &&
        h(
          "p",
          { class: "good" },
          good,
          became.length > 0 && [" ", h("code", null, became.join("; "))],
        ),
      ...(reply.notices ?? []).map((notice) => h("p", { class: "note" }, notice)),
    );
  }

  private trouble(error: unknown): void {
    const message = error instanceof Refused ? error.message : words.notSent;
    put(this.report, h("p", { class: "bad" }, message));
    this.apply.disabled = !this.app.mayChange;
  }
}

/** The number of the newest change that is in force and does not undo another change. */
export function lastChange(app: App): number | undefined {
  const undone = new Set(app.changes.map((c) => c.undoes).filter((n) => n != null));
  return [...app.changes].reverse().find((c) => c.undoes == null && !undone.has(c.number))?.number;
}

/** A diagnostic with its line of text, in which the part in question is marked. */
export function diagnostic(d: Diagnostic): HTMLElement {
  // `start` and `end` are in bytes of UTF-8.
  const bytes = new TextEncoder().encode(d.text);
  const part = (from: number, to: number) => new TextDecoder().decode(bytes.slice(from, to));
  return h(
    "div",
    { class: `diagnostic ${d.severity}` },
    h("p", null, h("strong", null, words[d.severity]), " ", d.message),
    d.text &&
      h(
        "pre",
        null,
        part(0, d.start),
        h("mark", null, part(d.start, Math.max(d.end, d.start + 1))),
        part(Math.max(d.end, d.start + 1), bytes.length),
      ),
    d.label && h("p", { class: "remark" }, d.label),
    ...d.help.map((line) => h("p", { class: "remark" }, line)),
  );
}

/** The pause after the last key before the words are checked, ms. */
const CHECK_AFTER = 150;
let forms = 0;
