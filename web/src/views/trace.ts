// One packet through the rules: a form for its headers, the same in words, and the path that it
// takes. Nothing is sent, and no rule counts the packet.

import { get, Refused } from "../api";
import type { App } from "../app";
import { flag, h, put, say } from "../dom";
import { diagnostic } from "../form";
import { words } from "../text";

interface Trace {
  packet: string;
  lane: string;
  legs: Leg[];
  unlisted: number;
  end: "sent" | "denied" | "loop" | "no_object" | "unfinished";
  what: string;
}

interface Leg {
  place: string;
  rules: { number: number; id: number; command: string; matched: boolean; what: string }[];
  enters: { object: string; name: string; spec: string; instance: string | null }[];
}

/** The options that have a field: their word, label and example. */
const OPTIONS = [
  ["len", words.packetLength, "1500B"],
  ["flags", words.tcpFlags, "syn"],
  ["dscp", "DSCP", "ef"],
  ["ttl", "TTL", "64"],
  ["vlan", "VLAN", "7"],
  ["type", words.icmpType, "8"],
] as const;

export function tracer(app: App): { node: HTMLElement; close: () => void } {
  const field = (id: string, label: string, hint: string, value = "") => {
    const input = h("input", {
      id: `packet-${id}`,
      type: "text",
      placeholder: hint,
      value,
      spellcheck: "false",
      autocomplete: "off",
      oninput: () => toWords(),
    });
    return {
      input,
      node: h("div", { class: "field" }, h("label", { for: input.id }, label), input),
    };
  };
  const choice = (id: string, label: string, options: [string, string][], act: () => void) => {
    const select = h(
      "select",
      { id: `packet-${id}`, onchange: act },
      ...options.map(([value, name]) => h("option", { value }, name)),
    );
    return {
      select,
      node: h("div", { class: "field" }, h("label", { for: select.id }, label), select),
    };
  };
  const lane = choice("lane", words.direction, [], () => {});
  const protocol = choice(
    "protocol",
    words.protocol,
    [
      ["tcp", "TCP"],
      ["udp", "UDP"],
      ["icmp", "ICMP"],
      ["icmp6", "ICMPv6"],
    ],
    () => toWords(),
  );
  const source = field("source", words.source, "10.0.0.1:40000", "10.0.0.1:40000");
  const target = field("target", words.destination, "192.0.2.1:80", "192.0.2.1:80");
  const options = OPTIONS.map(([word, label, hint]) => ({ word, ...field(word, label, hint) }));
  const prob = choice(
    "prob",
    words.probRules,
    [
      ["match", words.probMatch],
      ["pass", words.probPass],
    ],
    () => {},
  );
  const input = h("input", {
    id: "packet",
    type: "text",
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    oninput: () => fromWords(),
  });
  const verdict = h("p", { class: "route", "aria-live": "polite" });
  const way = h("div", { class: "way" });
  const trouble = h("div", { class: "report", "aria-live": "polite", hidden: true });

  /** The fields have changed: the words follow them. */
  function toWords(): void {
    const text = (node: HTMLInputElement) => node.value.trim().replace(/\s+/g, "");
    const parts = [protocol.select.value, text(source.input), text(target.input)];
    for (const { word, input: own } of options) if (text(own)) parts.push(word, text(own));
    input.value = parts.filter(Boolean).join(" ");
  }

  /** The words have changed: the fields follow them. */
  function fromWords(): void {
    const [first = "", from = "", to = "", ...rest] = input.value.trim().split(/\s+/);
    if ([...protocol.select.options].some((option) => option.value === first))
      protocol.select.value = first;
    source.input.value = from;
    target.input.value = to;
    for (const { word, input: own } of options) {
      const at = rest.indexOf(word);
      own.value = at >= 0 ? (rest[at + 1] ?? "") : "";
    }
  }

  const fill = () => {
    const chosen = lane.select.value;
    const lanes = app.things.filter((thing) => thing.kind === "lane");
    put(
      lane.select,
      ...lanes.map((thing) =>
        h(
          "option",
          { value: thing.name, selected: thing.name === chosen },
          `${thing.from ?? thing.name} → ${thing.to ?? ""}`,
        ),
      ),
    );
    lane.node.hidden = lanes.length < 2;
    prob.node.hidden = !app.rules.some((rule) => / prob \S/.test(rule.command));
  };

  let asked = 0;
  const ask = async () => {
    const turn = ++asked;
    const query = new URLSearchParams({ packet: input.value.trim(), prob: prob.select.value });
    if (lane.select.value) query.set("lane", lane.select.value);
    try {
      const trace = await get<Trace>(`/v1/trace?${query.toString()}`);
      if (turn !== asked) return;
      trouble.hidden = true;
      put(trouble);
      say(verdict, trace.what);
      flag(verdict, "bad", trace.end !== "sent");
      flag(verdict, "good", trace.end === "sent");
      put(
        way,
        ...trace.legs.map(leg),
        trace.unlisted > 0 && h("p", { class: "note" }, words.unlistedRules(trace.unlisted)),
      );
    } catch (error) {
      if (turn !== asked) return;
      say(verdict, "");
      put(way);
      trouble.hidden = false;
      const place =
        error instanceof Refused ? (error.body as { start?: number; end?: number } | null) : null;
      const message = error instanceof Refused ? error.message : words.notSent;
      put(
        trouble,
        place?.start === undefined
          ? h("p", { class: "bad" }, message)
          : diagnostic({
              severity: "error",
              code: "packet",
              message,
              line: 1,
              text: input.value.trim(),
              start: place.start,
              end: place.end ?? place.start,
              label: "",
              help: [],
            }),
      );
    }
  };

  const form = h(
    "form",
    { class: "change card two trace" },
    h(
      "fieldset",
      { class: "fields" },
      h("legend", null, words.packetHeaders),
      lane.node,
      protocol.node,
      source.node,
      target.node,
      h(
        "details",
        null,
        h("summary", null, words.moreHeaders),
        h("div", { class: "fields" }, ...options.map((option) => option.node)),
      ),
      prob.node,
    ),
    h(
      "div",
      { class: "language" },
      h("label", { for: "packet" }, words.inWords),
      input,
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "submit", class: "primary" }, words.traceIt),
        h("span", { class: "remark" }, words.traceHelp),
      ),
      trouble,
      verdict,
      way,
    ),
  );
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    void ask();
  });
  fill();
  toWords();
  const close = app.on("things", fill);
  return { node: h("section", null, h("h2", null, words.trace), form), close };
}

/** One search through the rules. Long runs of rules that do not match are folded. */
function leg(one: Leg): HTMLElement {
  const parts: HTMLElement[] = [];
  let missed: HTMLElement[] = [];
  const flush = () => {
    if (missed.length > FEW) {
      parts.push(
        h(
          "li",
          null,
          h(
            "details",
            null,
            h("summary", null, words.rulesThatDoNot(missed.length)),
            h("ol", { class: "steps" }, ...missed),
          ),
        ),
      );
    } else parts.push(...missed);
    missed = [];
  };
  for (const rule of one.rules) {
    const item = h(
      "li",
      { class: rule.matched ? "matched" : "passed" },
      h("span", { class: "hit", "aria-hidden": "true" }, rule.matched ? "✓" : "·"),
      h("b", null, String(rule.number)),
      h("code", null, rule.command.replace(/^add \d+ (?:set \d+ )?/, "")),
      h(
        "span",
        { class: "what" },
        h("span", { class: "sr" }, rule.matched ? words.matches : words.matchesNot),
        rule.what,
      ),
    );
    if (rule.matched) {
      flush();
      parts.push(item);
    } else missed.push(item);
  }
  flush();
  return h(
    "div",
    { class: "leg" },
    h("h3", null, h("code", null, one.place)),
    h("ol", { class: "steps" }, ...parts),
    one.enters.length > 0 && h("ol", { class: "enters" }, ...one.enters.map(entered)),
  );
}

/** A pipe, queue or scheduler, with the instance that the packet belongs to. */
function entered(object: Leg["enters"][number]): HTMLElement {
  if (!object.spec) return h("li", { class: "bad" }, words.doesNotExist(object.name));
  const group = /^(?:pipe|queue|sched):/.test(object.object)
    ? `#/instances/${encodeURIComponent(object.object)}`
    : undefined;
  return h(
    "li",
    null,
    h("a", { href: `#/o/${encodeURIComponent(object.object)}` }, object.name),
    " ",
    h("code", null, object.spec.replace(/^(?:pipe|queue|sched) \d+ config\s*/, "")),
    object.instance !== null &&
      h(
        "span",
        { class: "instance" },
        words.itsInstance,
        " ",
        group ? h("a", { href: group }, object.instance) : object.instance,
      ),
  );
}

/** Runs of up to this many rules that do not match are shown; longer runs are folded. */
const FEW = 6;
