// The machine, as cadmus/vm/reference.py defines it: tests run both on the same programs.
//
// A number is {value, decoration}, a sequence an array of numbers, NAN is null.

const END = ".";
const isSequence = Array.isArray;
export const isTrue = (value) => value !== null && (isSequence(value) || value.value !== 0);
const number = (value, decoration = 0) => ({ value, decoration });
const same = (a, b) => a.value === b.value && a.decoration === b.decoration;

class BudgetSpent extends Error {}

// The positions of the instructions at the top level, and those of each subroutine.
export function positions(program) {
  const end = program.indexOf(END);
  const text = end < 0 ? program : program.slice(0, end);
  const top = [], bodies = [];
  let body = null;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === ";") body = null;
    else if (text[i] === "\\") { if (!body) bodies.push((body = [])); }
    else (body ?? top).push(i);
  }
  return [top, bodies];
}

export function makeMachine({ instructions, limits }) {
  const integer = (value) => (value >= limits.integer_min && value <= limits.integer_max ? number(value + 0) : null);

  // Lift a function of numbers to sequences of equal length; a number broadcasts.
  const elementwise = (f) => (...inputs) => {
    const sequences = inputs.filter(isSequence);
    if (!sequences.length) return [f(...inputs)];
    const { length } = sequences[0];
    if (sequences.some((sequence) => sequence.length !== length)) return [null];
    const results = Array.from({ length }, (_, i) => f(...inputs.map((input) => (isSequence(input) ? input[i] : input))));
    return [results.includes(null) ? null : results];
  };
  const arithmetic = (f) => elementwise((...numbers) => {
    const result = f(...numbers.map((each) => each.value));
    return result === null ? null : integer(Number(result));
  });
  const S = isSequence, N = (value) => !isSequence(value);
  const typed = (f, ...types) => (...inputs) => [types.every((is, i) => is(inputs[i])) ? f(...inputs) : null];
  const fitting = (elements) => (elements.length <= limits.max_sequence_length ? elements : null);
  const first = (better) => typed((s) => s.reduce((best, each) => (best === null || better(each.value, best.value) ? each : best), null), S);

  const operations = {
    empty: () => [[]],
    add: arithmetic((a, b) => a + b),
    subtract: arithmetic((a, b) => a - b),
    multiply: arithmetic((a, b) => a * b),
    divide: arithmetic((a, b) => (b ? Math.floor(a / b) : null)),
    modulo: arithmetic((a, b) => (b ? a - b * Math.floor(a / b) : null)),
    maximum: arithmetic(Math.max),
    minimum: arithmetic(Math.min),
    less: arithmetic((a, b) => a < b),
    greater: arithmetic((a, b) => a > b),
    equal: arithmetic((a, b) => a === b),
    and: arithmetic((a, b) => a !== 0 && b !== 0),
    or: arithmetic((a, b) => a !== 0 || b !== 0),
    not: arithmetic((a) => a === 0),
    truth: arithmetic((a) => a !== 0),
    successor: arithmetic((a) => a + 1),
    halve: arithmetic((a) => Math.floor(a / 2)),
    negate: arithmetic((a) => -a),
    absolute: arithmetic(Math.abs),
    even: arithmetic((a) => a % 2 === 0),
    duplicate: (a) => [a, a],
    drop: () => [],
    swap: (a, b) => [b, a],
    over: (a, b) => [a, b, a],
    rotate: (a, b, c) => [b, c, a],
    choose: (c, a, b) => [isTrue(c) ? a : b],
    append: typed((s, a) => fitting([...s, a]), S, N),
    concatenate: typed((s, z) => fitting([...s, ...z]), S, S),
    index: typed((s, { value }) => s.at(value) ?? null, S, N),
    length: typed((s) => integer(s.length), S),
    sum: typed((s) => integer(s.reduce((sum, each) => sum + each.value, 0)), S),
    largest: first((a, b) => a > b),
    smallest: first((a, b) => a < b),
    all: typed((s) => number(Number(s.every((each) => each.value !== 0))), S),
    sort: typed((s) => [...s].sort((a, b) => a.value - b.value), S),
    reverse: typed((s) => [...s].reverse(), S),
    keep: typed((s, z) => (s.length === z.length ? s.filter((_, i) => z[i].value !== 0) : null), S, S),
    range: typed(({ value }) => (value <= limits.max_sequence_length
      ? Array.from({ length: Math.max(value, 0) }, (_, i) => number(i)) : null), N),
    identical: (a, b) => [number(Number(isSequence(a) === isSequence(b) && (isSequence(a)
      ? a.length === b.length && a.every((each, i) => same(each, b[i])) : same(a, b))))],
    decorate: elementwise((a, k) => (k.value >= 0 && k.value <= limits.max_decoration ? number(a.value, k.value) : null)),
    decoration: elementwise((a) => number(a.decoration)),
  };
  const called = { "call 0": 0, "call 1": 1, "call 2": 2, "call 0 with two": 0, "call 1 with two": 1 };
  const others = ["end", "define", "end definition", ...Object.keys(called), "recur", "map", "filter", "fold"];
  const rows = Object.fromEntries(instructions.map((row) => {
    const operation = row.literal === null ? operations[row.name] : () => [number(row.literal)];
    if (!operation && !others.includes(row.name)) throw new Error(`${row.name}: no case in machine.js; add one`);
    return [row.symbol, { ...row, operation }];
  }));

  // The steps of a program: place, depth, and the stack after each; those inside calls before the one that calls.
  function trace(program, calls = false) {
    const [top, subroutines] = positions(program);
    const steps = [];
    let executed = 0;

    function execute(body, stack, current, depth) {
      for (const place of body) {
        if (depth > 0 && executed++ >= limits.call_budget) { executed--; throw new BudgetSpent(); }
        const { inputs, outputs, operation, name } = rows[program[place]];
        const missing = inputs > stack.length;
        const values = stack.splice(missing ? 0 : stack.length - inputs);
        if (missing || values.includes(null)) stack.push(...Array(outputs).fill(null));
        else stack.push(...(operation ? operation(...values) : [calling(name, values, current, depth)]));
        if (calls || depth === 0) steps.push({ place, depth, stack: [...stack] });
      }
    }

    function call(subroutine, given, depth) {
      if (depth === limits.max_call_depth || executed >= limits.call_budget || subroutine >= subroutines.length) return null;
      const stack = [...given];
      try {
        execute(subroutines[subroutine], stack, subroutine, depth + 1);
      } catch (error) {
        if (error instanceof BudgetSpent) return null;
        throw error;
      }
      return stack.at(-1) ?? null;
    }

    function calling(name, values, current, depth) {
      if (name in called) return call(called[name], values, depth);
      if (name === "recur") {
        const [argument, condition] = values;
        if (!isTrue(condition)) return argument;
        return current === null ? null : call(current, [argument], depth);
      }
      if (!isSequence(values[0])) return null;
      let accumulator = values.at(-1);
      const elements = [];
      for (const element of values[0]) {
        const result = call(0, name === "fold" ? [accumulator, element] : [element], depth);
        if (result === null || (name === "map" && isSequence(result))) return null;
        if (name === "map") elements.push(result);
        else if (name === "filter" && isTrue(result)) elements.push(element);
        accumulator = result;
      }
      return name === "fold" ? accumulator : elements;
    }

    const outputs = [];
    execute(top, outputs, null, 0);
    return { steps, outputs, true: outputs.length > 0 && outputs.every(isTrue) };
  }

  return { trace };
}
