// Whether a completion solves its task, as cadmus/evaluate/criteria.py and cadmus/vm/verifying.py decide it; tests
// grade the same completions.

import { positions } from "./machine.js";

const SINGLE = [..."0123456789tZ"];
const FEW = [..."Z0259t"];
const RUN = 3; // instructions in a row that an expression may not share with the one it equals
// Values in place of a number, besides the other numbers on its stack, and in place of a sequence.
const NUMBERS = ["0", "1"], SEQUENCES = ["0", "1", "u", "u0b", "u1b", "u9b"];

const equal = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// Instructions that leave an integer: Horner's rule, by subtraction if it is negative.
function digits(value) {
  const operator = value < 0 ? "-" : "+";
  return [...String(Math.abs(value))].reduce((text, digit) => `${text}t*${digit}${operator}`, "0");
}

// Instructions that leave a value, which is not NAN.
function written(value) {
  if (Array.isArray(value)) return `u${value.map((each) => `${written(each)}b`).join("")}`;
  return digits(value.value) + (value.decoration ? `${value.decoration}:` : "");
}

export function makeGrader({ instructions, patterns, calls }, machine) {
  const rows = Object.fromEntries(instructions.map((row) => [row.symbol, row]));
  const forms = Object.fromEntries(Object.entries(patterns).map(([name, text]) => [name, new RegExp(`^(?:${text})$`)]));
  const outputs = (program) => machine.trace(program).outputs;

  // Whether instructions leave exactly one value and take none from the stack.
  function isExpression(text) {
    let depth = 0;
    for (const symbol of text) {
      if (depth < rows[symbol].inputs) return false;
      depth += rows[symbol].outputs - rows[symbol].inputs;
    }
    return depth === 1;
  }

  // The shortest run of instructions before the comparator is the second expression.
  function firstExpression(program) {
    for (let start = program.length - 2; start > 0; start--) {
      if (isExpression(program.slice(start, -1))) return program.slice(0, start);
    }
    throw new Error(`${program} does not end in an expression and a comparator`);
  }

  function copies(second, first) {
    if (second.length > first.length) return true;
    for (let i = 0; i + RUN <= first.length; i++) if (second.includes(first.slice(i, i + RUN))) return true;
    const count = (text, symbol) => text.split(symbol).length - 1;
    return [...first].filter((symbol) => SINGLE.includes(symbol)).every((symbol) => count(second, symbol) >= count(first, symbol));
  }

  // Whether a value of the prompt is ignored: no other in its place changes what the program leaves.
  function ignores(prompt, program, left) {
    const [top, bodies] = positions(program);
    const read = (places) => places.map((place) => program[place]).join("");
    const cut = positions(prompt)[0].length;
    const definitions = bodies.map((body) => `\\${read(body)};`).join("");
    const stack = outputs(read(top.slice(0, cut)) + definitions);
    const texts = stack.map(written);
    const numbers = texts.filter((_, place) => !Array.isArray(stack[place]));
    return stack.some((value, place) =>
      (Array.isArray(value) ? SEQUENCES : [...NUMBERS, ...numbers]).every((other) => {
        const start = texts.map((text, k) => (k === place ? other : text)).join("");
        const changed = outputs(start + read(top.slice(cut)) + definitions);
        return changed.includes(null) || equal(changed, left);
      }),
    );
  }

  // Whether the body of a definition is long enough to hold the text of its prompt.
  const inlines = (prompt, text) => positions(text)[1].flat().length >= positions(prompt)[0].length;

  // Whether the value of the last subroutine depends on each of its arguments.
  function varies(program) {
    const bodies = positions(program)[1].map((body) => body.map((place) => program[place]).join(""));
    const last = bodies.length - 1;
    const two = "FG"[last];
    const definitions = bodies.map((body) => `\\${body};`).join("");
    const value = (call) => outputs(definitions + call).at(-1)?.value ?? null;
    const differ = (calls) => new Set(calls.map(value)).size > 1;
    if (!two || !program.includes(two)) return differ(SINGLE.map((argument) => argument + ("fgh"[last] ?? "")));
    return (
      FEW.some((second) => differ(FEW.map((first) => first + second + two))) &&
      FEW.some((first) => differ(FEW.map((second) => first + second + two)))
    );
  }

  function agree(ours, theirs, name) {
    const closed = (text) => `${text.replace(/;+$/, "")};`;
    return calls[name].every((call) => equal(outputs(closed(ours) + call), outputs(closed(theirs) + call)));
  }

  const solves = {
    comparator: ({ same, text, reference }) => same && text === reference,
    equality: ({ same, text, program }) => same && isExpression(text.slice(0, -1)) && !copies(text.slice(0, -1), firstExpression(program)),
    answer: ({ same, text, reference }) => same && (["", "!"].includes(reference) ? text === reference : text !== "" && text !== "!"),
    definition: ({ same, text, reference, full, task }) =>
      same && !inlines(task.prompt, text) && (text === reference || varies(full)),
    anything: ({ verified }) => verified,
    induction: ({ same, text, reference, task }) => same && (text === reference || agree(text, reference, task.calls)),
  };

  // Whether a completion solves its task, and why it does not.
  function judge(task, text, ended) {
    const { prompt, reference, form } = task;
    const full = prompt + text;
    const { outputs: left, true: isTrue } = machine.trace(full);
    const dropping = text.includes("_");
    const ignoring = isTrue && ended && !dropping && ignores(prompt, full, left);
    const verified = isTrue && ended && !dropping && !ignoring;
    const same = verified && equal(left, outputs(prompt + reference));
    const formed = forms[form].test(text);
    const solved = formed && solves[form]({ task, text, reference, full, same, verified, program: prompt + reference });
    const reasons = [
      [solved, ""],
      [!ended, "it does not end"],
      [!isTrue, "the program is false"],
      [dropping, "it drops a value"],
      [ignoring, "it ignores what the prompt leaves"],
      [!formed, "it is true, but has another form"],
      [!same, "it is true, but leaves something else than an answer"],
      [form === "induction", "it fits the examples, but is another function"],
      [true, "it repeats the prompt instead of answering it"],
    ];
    return { solved, why: reasons.find(([applies]) => applies)[1] };
  }
  return judge;
}
