// Specifications of links: their words, and what they mean in a sentence.

import type { Rule, Thing } from "./api";
import { count, exact } from "./format";
import { words } from "./text";

/** The words of a specification; a quoted name is one word. */
export function tokens(spec: string): string[] {
  return spec.match(/"[^"]*"|\S+/g) ?? [];
}

/** The words before the specification of a daemon's object, such as `pipe 1 config`. */
export function head(thing: Thing): string {
  const spec = thing.spec ?? "";
  const own = /^(?:pipe|queue|sched) \d+ config/.exec(spec)?.[0];
  if (own !== undefined) return own;
  return thing.kind === "pipe" ? `pipe ${thing.object.split(":")[1]!.split("/")[0]} config` : "";
}

/** The specification without the words before it. */
export function body(thing: Thing): string {
  return (thing.spec ?? "").replace(/^(?:pipe|queue|sched) \d+ config\s*/, "");
}

/** The value after a keyword; absent without the keyword. */
export function value(spec: string, keyword: string): string | undefined {
  const list = tokens(spec);
  const at = list.indexOf(keyword);
  return at < 0 ? undefined : list[at + 1];
}

/** The specification with another value of a keyword; without the keyword if the value is empty. */
export function set(spec: string, keyword: string, to: string): string {
  const list = tokens(spec);
  const at = list.indexOf(keyword);
  if (at >= 0) list.splice(at, 2, ...(to ? [keyword, to] : []));
  else if (to) list.push(keyword, to);
  return list.join(" ");
}

/** The rate in bit/s that a word such as `4Mbit/s` or `500k` states; absent for another word. */
export function rate(words: string): number | undefined {
  const match = /^([\d.]+)\s*([KMGT]?)(i?)(bit\/s|b\/s|bps|Byte\/s|B\/s|Bps)?$/i.exec(words);
  if (!match) return undefined;
  const base = match[3] ? 1024 : 1000;
  const power = ["", "k", "m", "g", "t"].indexOf((match[2] ?? "").toLowerCase());
  const bytes = /^B/.test(match[4] ?? "") ? 8 : 1;
  return Number(match[1]) * base ** power * bytes;
}

/** A rate as the language writes it, with at most six digits. */
export function rateWords(bps: number): string {
  for (const [size, name] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "K"],
  ] as const) {
    if (bps >= size) return `${+(bps / size).toPrecision(6)}${name}bit/s`;
  }
  return `${Math.round(bps)}bit/s`;
}

/** The specification without its mask. */
export function unmasked(spec: string): string {
  return spec
    .replace(
      /\s*\bmask(\s+(?:(?:src|dst)-(?:ip6?|port|mac)|proto|flow-id|vlan|dscp|all)(\s+(?:0x[0-9a-f:]+|\/\d+|\d+))?)+/i,
      "",
    )
    .trim();
}

/**
 * The commands that give one instance of a pipe a pipe of its own with another rate: the pipe, and
 * a rule before the one that matches now. `key` is what distinguishes the instance, as
 * `SOURCE → DESTINATION` with `*` for what its mask leaves out. `free` is the number of the new
 * pipe. Returns `undefined` if the key and the rules are not enough to write the commands.
 */
export function ownPipe(
  pipe: Thing,
  key: string,
  rules: Rule[],
  free: number,
  factor: number,
): string | undefined {
  const number = pipe.object.split(":")[1]!;
  const sent = new RegExp(`\\bpipe ${number}\\b`);
  const rule = rules.find((r) => r.enabled && sent.test(r.command));
  const [source, destination] = key.split(" → ").map((part) => part.trim());
  // An end is an address, perhaps with a port: 10.0.0.1, 10.0.0.1:80, 2001:db8::1, [2001:db8::1]:80.
  const address = (part = "") => {
    const end = part.replace(/ proto \d+$/, "");
    const [, ip, port] =
      /^(\d+(?:\.\d+){3}|\[[0-9a-f:.]+\])(?::(\d+))?$/i.exec(end) ??
      /^([0-9a-f]*:[0-9a-f:.]+)$/i.exec(end) ??
      [];
    return ip && `${ip.replace(/[[\]]/g, "")}${port ? ` ${port}` : ""}`;
  };
  const [from, to] = [address(source), address(destination)];
  if (!rule || rule.number < 2 || (!from && !to) || !pipe.rate_bps) return undefined;
  let command = rule.command
    .replace(/^add \d+/, `add ${rule.number - 1}`)
    .replace(sent, `pipe ${free}`);
  if (from) command = command.replace(/\bfrom \S+/, `from ${from}`);
  if (to) command = command.replace(/ to \S+/, ` to ${to}`);
  const spec = set(unmasked(body(pipe)), "bw", rateWords(pipe.rate_bps * factor));
  return `pipe ${free} config ${spec}\n${command}`;
}

/** A number that no pipe and no scheduler has. */
export function freePipe(things: Thing[]): number {
  const used = things.filter((t) => t.kind === "pipe" || t.kind === "sched");
  return Math.max(0, ...used.map((t) => Number(t.object.split(":")[1]))) + 1;
}

/** The configuration of an object in words; empty for a perfect link. */
export function inWords(thing: Thing): string {
  const spec = body(thing);
  const list = tokens(spec);
  const parts: string[] = [];
  const known = new Set(["bw", "delay", "queue", "loss", "plr", "jitter"]);
  const bw = value(spec, "bw");
  if (thing.rate_bps) parts.push(exact(thing.rate_bps, "bps"));
  else if (bw) parts.push(bw);
  if (thing.delay_ns) parts.push(words.delayOf(exact(thing.delay_ns, "ns")));
  const jitter = value(spec, "jitter");
  if (jitter) parts.push(words.jitterOf(jitter));
  const loss = value(spec, "loss") ?? value(spec, "plr");
  if (loss) parts.push(words.lossOf(loss));
  const queue = value(spec, "queue");
  if (queue)
    parts.push(
      words.queueOf(/^\d+$/.test(queue) ? `${count(Number(queue))} ${words.packets}` : queue),
    );
  if (thing.aqm) parts.push(thing.aqm.algorithm);
  const others = list.filter((word, i) => !known.has(word) && !known.has(list[i - 1] ?? ""));
  const algorithm = thing.aqm?.algorithm;
  if (others.length && others[0] !== algorithm)
    parts.push(others.slice(0, 6).join(" ") + (others.length > 6 ? " …" : ""));
  return parts.join(", ");
}
