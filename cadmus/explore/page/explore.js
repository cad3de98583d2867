// The explorer: all of it runs in the page. The state is what was computed last and the selection; every change redraws
// what depends on it.

import { GPT, softmax } from "./gpt.js";
import { makeGrader } from "./grade.js";
import { makeMachine } from "./machine.js";

const at = (id) => document.getElementById(id);
const END = ".";
// What solves a task, by the form of its completion.
const ASKED = {
  comparator: "Write <, = or >, whichever makes the program true.",
  equality: "Write an expression of the same value in other numbers, then =.",
  answer: "Write the value that the prompt leaves, then = for a number or Y for a sequence; after a label nothing or !",
  definition: "Define the function, \\ … ;, so that the comparison holds.",
  induction: "Define the function that gives all results, \\ … ;",
  anything: "Go on until the program is true.",
};
const SHOWN = 8; // instructions in the list of predictions
const LEAST = 0.0005; // probability that still rounds to 0.1%
const OPENING = "#program=62*5%2B46*7-%3D.&place=10"; // the model completes it from this instruction on
const SIDE = 585; // pixels of the enlarged head, less on a narrow screen
const READABLE = 8; // pixels per instruction below which the attention labels only the chosen one
const TYPING = 40; // ms after the last key press until a program is read
const MAX_VALUES = 50_000; // values that the stacks of all steps have together

let site; // site.json
let tokenOf; // by symbol
let machine;
let grade;
let model;
let seen = null; // the program and what machine and model make of it
let task = null; // what the program is to solve
let guessing = false; // the visitor answers before the model
let chosen = { place: 0, layer: 1, head: 0 };
let writing = null; // the completion in progress
let wrote = null; // {text, completion}: the last program that the model completed, and what it added

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const pause = () => new Promise((resume) => setTimeout(resume));
const listed = (words) => `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
const pick = (list) => list[Math.floor(Math.random() * list.length)];
const percent = (share) => (share < LEAST ? "<0.1%" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`);
const symbolOf = (token) => site.instructions[token].symbol;
const tokensOf = (text) => [...text].map((symbol) => tokenOf.get(symbol));
const follows = (place) => seen.program[place + 1] ?? (seen.ended ? END : null);
const last = () => site.model.layers;
const probability = (layer, place, token) => seen.read[place].lens[layer][token];
const attends = (head, from, to) => seen.read[from].shares[chosen.layer - 1][head][to];

function likeliest(layer, place, count) {
  return site.instructions
    .map((_, token) => [token, probability(layer, place, token)])
    .sort((a, b) => b[1] - a[1])
    .slice(0, count);
}

function largest(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

// ---- reading a program

function checked(text) {
  const symbols = [...text];
  const unknown = symbols.findIndex((symbol) => symbol.trim() && !tokenOf.has(symbol));
  if (unknown >= 0) throw new Error(`unknown symbol '${symbols[unknown]}' at position ${unknown + 1}; each character is one of the ${tokenOf.size} instructions`);
  const written = text.replace(/\s/g, "");
  const [program] = written.split(END);
  if (!program) throw new Error("the program is empty; type instructions, or take a task");
  if (program.length > site.longest) throw new Error(`the program has ${program.length} instructions; at most ${site.longest}`);
  return { program, ended: written.includes(END) };
}

function look(text, place = Infinity) {
  try {
    const { program, ended } = checked(text);
    const found = machine.trace(program, at("calls").checked);
    const count = found.steps.reduce((sum, step) => sum + step.stack.length, 0);
    if (count > MAX_VALUES) throw new Error(`the stacks have ${count.toLocaleString("en")} values to show; leave out the steps inside calls`);
    // Appending selects the last instruction; editing keeps the selection.
    const longer = seen && program !== seen.program && program.startsWith(seen.program);
    const fresh = !seen || longer || place !== Infinity;
    seen = { program, ended, ...found, read: model.forward(tokensOf(program)) };
    chosen.place = Math.max(0, Math.min(fresh ? place : chosen.place, program.length - 1));
    say("");
    at("advice").textContent = advice(text, program).join(" ");
    draw();
  } catch (error) {
    // Nothing that was computed for another program stays next to the error.
    seen = null;
    at("advice").textContent = at("example").textContent = "";
    at("task").hidden = true;
    say(error.message);
  }
  document.body.classList.toggle("unread", !seen);
}

// What is allowed and may still surprise.
function advice(text, program) {
  const { max_length: longest } = site.model;
  const numbers = /\s/.test(text) ? text.match(/[0-9]{2,}/g) ?? [] : [];
  return [
    ...numbers.slice(0, 1).map((number) => `Each character is an instruction: ${number} is ${listed([...number].map((digit) => `a ${digit}`))}.`),
    ...(program.length > longest ? [`The model was trained on programs of up to ${longest} instructions; this one has `
      + `${program.length}, so its predictions may be wrong.`] : []),
  ];
}

function say(message, field = "program") {
  at("error").textContent = message;
  for (const each of ["program", "temperature"]) at(each).ariaInvalid = String(message !== "" && each === field);
}

function setProgram(text, place) {
  at("program").value = text;
  seen = null;
  look(text, place);
}

// ---- completing

function drawn(shares, temperature) {
  if (!temperature) return largest(shares);
  let left = Math.random();
  const scaled = softmax(shares.map((share) => Math.log(share) / temperature));
  for (let token = 0; token < scaled.length; token++) if ((left -= scaled[token]) < 0) return token;
  return largest(scaled);
}

// The model's completion of a program, with its end if it ends by itself; null if the visitor continues first.
async function completed(prefix, temperature, show = () => {}) {
  const mine = (writing = {});
  let text = prefix;
  while (!text.endsWith(END)) {
    const next = symbolOf(drawn(model.forward(tokensOf(text)).at(-1).lens[last()], temperature));
    // A program of the maximum length may still end.
    if (next !== END && text.length >= site.model.max_length) break;
    text += next;
    show(text);
    await pause();
    if (mine !== writing) return null;
  }
  return text;
}

async function complete() {
  const { value, min, max, valueAsNumber: temperature } = at("temperature");
  if (!(temperature >= Number(min) && temperature <= Number(max))) {
    return say(`temperature: must be a number from ${min} to ${max}, got ${value || "none"}`, "temperature");
  }
  try {
    const { program, ended } = checked(at("program").value);
    if (ended) throw new Error(`the program has its end ${END}; remove it to have it completed`);
    const text = await completed(program, temperature, (so_far) => { at("program").value = so_far; });
    if (text === null) return;
    wrote = { text, completion: text.slice(program.length) };
    look(text, program.length - 1);
  } catch (error) {
    say(error.message);
  }
}

function drawTask(hide) {
  const name = at("question").value;
  task = { ...pick(site.questions[name].tasks), name, form: site.questions[name].form };
  guessing = hide;
  document.body.classList.toggle("guessing", hide);
  setProgram(task.prompt);
  at("program").focus();
}

// Whether the program solves the task, once it has its end. A visitor's answer is compared with the model's.
async function judge() {
  const mine = task;
  const isOf = task && seen.program.startsWith(task.prompt);
  at("task").hidden = !isOf;
  if (!isOf) return;
  const { title } = site.questions[task.name];
  const solved = (text, ended) => {
    const { solved, why } = grade(task, text.slice(task.prompt.length), ended);
    return [element("b", { className: solved, textContent: solved ? "solved" : "not solved" }), why && `: ${why}`];
  };
  const prompt = element("code", { textContent: task.prompt });
  if (!seen.ended) {
    const before = guessing ? ` before the model, and end with ${END}` : "";
    at("task").replaceChildren(`Task, ${title}: continue `, prompt, `${before}. ${ASKED[task.form]}`);
    return;
  }
  at("task").replaceChildren(`Task, ${title}: `, prompt, guessing ? " You: " : " ", ...solved(seen.program, true));
  if (!guessing) return;
  guessing = false;
  document.body.classList.remove("guessing");
  const text = await completed(task.prompt, 0);
  if (text === null || mine !== task) return;
  const ended = text.endsWith(END);
  const program = ended ? text.slice(0, -1) : text;
  at("task").append(". The model: ", element("code", { textContent: text.slice(task.prompt.length) }), " ", ...solved(program, ended));
}

// ---- drawing

function draw() {
  drawExample();
  drawResult();
  drawTrace();
  drawLens();
  drawHeads();
  choose(chosen.place);
  judge();
}

const programOf = (hash) => new URLSearchParams(hash.slice(1)).get("program");

// The explanation of the example that the program begins with.
function drawExample() {
  const examples = [...at("chips").querySelectorAll("a")];
  const example = examples.find(({ hash }) => seen.program.startsWith(programOf(hash)));
  for (const each of examples) each.ariaCurrent = each === example ? "true" : null;
  at("example").textContent = example?.title ?? "";
}

function drawResult() {
  const values = seen.outputs.length ? seen.outputs.map(valueBox) : ["nothing"];
  at("result").replaceChildren(
    element("span", { className: String(seen.true), textContent: String(seen.true) }), " · leaves ", ...values,
    ...(seen.true ? [] : [" · a true program leaves a value, and no 0 or NAN"]), ...written(),
  );
}

// What the model wrote, if it completed this program.
function written() {
  if (wrote?.text !== seen.program + (seen.ended ? END : "")) return [];
  const stopped = seen.ended ? "" : `, and no end within ${site.model.max_length} instructions, the most in training`;
  return [" · the model wrote ", wrote.completion ? element("code", { textContent: wrote.completion }) : "nothing", stopped];
}

function valueBox(value) {
  const box = element("span", { className: "value" }, ...pieces(value));
  if (value === null) box.classList.add("nan");
  if (value?.value === 0) box.classList.add("zero");
  return box;
}

function pieces(value) {
  if (value === null) return ["NAN"];
  if (Array.isArray(value)) return ["[", ...value.flatMap((part, i) => [i ? " " : "", ...pieces(part)]), "]"];
  return [String(value.value), ...(value.decoration ? [element("sub", { textContent: value.decoration, title: "decoration" })] : [])];
}

function drawTokens() {
  const executed = new Set(seen.steps.filter((step) => step.depth === 0).map((step) => step.place));
  const texts = [...seen.program, ...(seen.ended ? [END] : [])];
  at("tokens").replaceChildren(...texts.map((symbol, place) => {
    const token = tokenOf.get(symbol);
    const share = place === 0 ? "" : percent(probability(last(), place - 1, token));
    const bar = element("span", { className: "bar" });
    bar.style.transform = `scaleX(${place <= chosen.place ? attends(chosen.head, chosen.place, place) : 0})`;
    const cell = element(
      "button",
      { title: site.instructions[token].name },
      element("b", { textContent: symbol }), element("small", { textContent: share || "–" }), bar,
    );
    if (place > 0) cell.style.background = `rgba(var(--shade), ${0.55 * probability(last(), place - 1, token)})`;
    cell.classList.toggle("defined", !executed.has(place) && symbol !== END);
    cell.classList.toggle("chosen", place === chosen.place);
    cell.disabled = place >= seen.program.length;
    cell.addEventListener("click", () => choose(place));
    return element("li", {}, cell);
  }));
}

function drawTrace() {
  at("trace").tBodies[0].replaceChildren(...seen.steps.map((step, i) => {
    const stack = element("td");
    step.stack.forEach((value, k) => stack.append(k ? "  " : "", valueBox(value)));
    const symbol = element("td", { textContent: seen.program[step.place] });
    const row = element("tr", {}, element("th", { textContent: i + 1 }), symbol, stack);
    row.classList.toggle("inside", step.depth > 0);
    for (const cell of [symbol, stack]) cell.style.paddingLeft = `${1.2 * step.depth}em`;
    row.addEventListener("click", () => choose(step.place));
    return row;
  }));
}

// The last executed step up to a place; instructions of a definition are not executed.
const stepAt = (place) => seen.steps.findLast((step) => step.depth === 0 && step.place <= place);

function drawMachine() {
  const step = stepAt(chosen.place);
  const symbol = seen.program[chosen.place];
  const { name, effect, meaning } = site.instructions[tokenOf.get(symbol)];
  const defined = step?.place !== chosen.place;
  at("meaning").replaceChildren(
    element("code", { textContent: symbol }), ` ${name}: ${effect.trim()} · ${meaning}`,
    defined ? " · part of a definition, not executed here" : "",
  );
  at("stack").replaceChildren(...(step?.stack.length ? step.stack.map(valueBox) : ["The stack is empty."]));
  for (const [i, row] of [...at("trace").tBodies[0].rows].entries()) {
    const current = seen.steps[i] === step;
    row.classList.toggle("chosen", current);
    if (current) scrollInside(row.firstChild, row.closest(".scroll"), at("trace").tHead.offsetHeight);
  }
}

// Scroll a child into the box, below its sticky header.
function scrollInside(child, box, header = 0) {
  const [inner, outer] = [child.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.top < outer.top + header) box.scrollTop -= outer.top + header - inner.top;
  if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
  if (inner.left < outer.left || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - outer.width / 2;
}

function drawExpected() {
  const own = follows(chosen.place);
  const tokens = likeliest(last(), chosen.place, SHOWN).filter(([, share]) => share >= LEAST).map(([token]) => token);
  if (own !== null && !tokens.includes(tokenOf.get(own))) tokens.push(tokenOf.get(own));
  at("after").replaceChildren(
    "After ", element("code", { textContent: seen.program.slice(0, chosen.place + 1) }),
    own === null ? "" : ". The program continues with ", own === null ? "" : element("code", { textContent: own }),
  );
  at("expected").replaceChildren(...tokens.map((token) => {
    const share = probability(last(), chosen.place, token);
    const bar = element("span", { className: "bar" });
    bar.style.width = `${100 * share}%`;
    const { symbol, name } = site.instructions[token];
    return element(
      "li", { title: name }, element("span", { textContent: symbol, className: symbol === own ? "own" : "" }),
      element("span", {}, bar), element("span", { textContent: percent(share), className: "share" }),
    );
  }));
}

function drawLens() {
  const rows = [];
  for (let layer = last(); layer >= 0; layer--) {
    const title = layer ? `block ${layer}` : "embedding";
    const row = element("tr", {}, element("th", { textContent: title }));
    for (let place = 0; place < seen.program.length; place++) {
      const token = largest(seen.read[place].lens[layer]);
      const share = probability(layer, place, token);
      const own = follows(place);
      const cell = element("td", {
        textContent: symbolOf(token),
        title: `${title}, after ${seen.program.slice(0, place + 1)}: ${symbolOf(token)} ${percent(share)}`
          + (own === null ? "" : `; ${own}, which follows, ${percent(probability(layer, place, tokenOf.get(own)))}`),
        className: symbolOf(token) === own ? "own" : "",
      });
      cell.dataset.place = place;
      cell.style.background = `rgba(var(--shade), ${0.85 * share})`;
      cell.addEventListener("click", () => choose(place));
      row.append(cell);
    }
    rows.push(row);
  }
  const foot = element("tr", {}, element("th", { textContent: "after" }));
  for (const [place, symbol] of [...seen.program].entries()) {
    foot.append(element("td", { textContent: symbol }));
    foot.lastChild.dataset.place = place;
  }
  at("lens").replaceChildren(element("tbody", {}, ...rows), element("tfoot", {}, foot));
}

function drawHeads() {
  const { heads } = site.model;
  const side = seen.program.length;
  // A square of heads, as wide as the enlarged one next to it.
  at("heads").style.gridTemplateColumns = `repeat(${Math.ceil(Math.sqrt(heads))}, 1fr)`;
  at("heads").replaceChildren(...Array.from({ length: heads }, (_, head) => {
    const canvas = element("canvas", { width: side, height: side });
    fill(canvas.getContext("2d"), head, 1, 0);
    const button = element("button", {}, canvas, `head ${head + 1}`);
    button.classList.toggle("chosen", head === chosen.head);
    button.addEventListener("click", () => { chosen.head = head; drawAttention(); });
    return button;
  }));
}

function drawAttention() {
  drawTokens();
  drawHeads();
  drawEnlarged();
}

function fill(pen, head, size, margin) {
  pen.fillStyle = `rgb(${getComputedStyle(document.documentElement).getPropertyValue("--shade")})`;
  for (let from = 0; from < seen.program.length; from++) {
    for (let to = 0; to <= from; to++) {
      pen.globalAlpha = attends(head, from, to);
      pen.fillRect(margin + to * size, margin + from * size, size, size);
    }
  }
  pen.globalAlpha = 1;
}

function drawEnlarged() {
  const tokens = seen.program.length;
  const margin = 24;
  const available = Math.min(SIDE, at("enlarged").clientWidth) - margin - 1;
  const size = Math.max(2, Math.min(96, Math.floor(available / tokens)));
  const scale = window.devicePixelRatio || 1;
  const side = margin + tokens * size + 1;
  const canvas = at("head");
  Object.assign(canvas, { width: side * scale, height: side * scale });
  Object.assign(canvas.style, { width: `${side}px`, height: `${side}px` });
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  fill(pen, chosen.head, size, margin);
  const style = getComputedStyle(document.documentElement);
  pen.font = `${size < READABLE ? 14 : Math.min(14, size + 2)}px ui-monospace, monospace`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const [place, symbol] of [...seen.program].entries()) {
    if (size < READABLE && place !== chosen.place) continue;
    pen.fillStyle = style.getPropertyValue(place === chosen.place ? "--accent" : "--ink");
    pen.fillText(symbol, margin + (place + 0.5) * size, margin / 2);
    pen.fillText(symbol, margin / 2, margin + (place + 0.5) * size);
  }
  pen.strokeStyle = style.getPropertyValue("--line");
  pen.strokeRect(margin, margin, tokens * size, tokens * size);
  pen.strokeStyle = style.getPropertyValue("--accent");
  pen.strokeRect(margin, margin + chosen.place * size, tokens * size, size);
  canvas.onmousemove = (event) => {
    const [to, from] = [event.offsetX, event.offsetY].map((offset) => Math.floor((offset - margin) / size));
    const inside = from >= 0 && to >= 0 && from < tokens && to <= from;
    at("share").textContent = inside ? shareText(from, to) : strongest();
  };
  canvas.onmouseleave = () => { at("share").textContent = strongest(); };
  canvas.onclick = (event) => {
    const place = Math.floor((event.offsetY - margin) / size);
    if (place >= 0 && place < tokens) choose(place);
  };
  at("share").textContent = strongest();
}

const named = (place) => `${seen.program[place]} (${place + 1})`;
const shareText = (from, to) =>
  `Block ${chosen.layer}, head ${chosen.head + 1}: ${named(from)} attends to ${named(to)} with ${percent(attends(chosen.head, from, to))}`;
const strongest = () => shareText(chosen.place, largest(seen.read[chosen.place].shares[chosen.layer - 1][chosen.head]));

// ---- choosing

function choose(place) {
  const focused = at("tokens").contains(document.activeElement);
  chosen.place = Math.max(0, Math.min(place, seen.program.length - 1));
  drawTokens();
  drawMachine();
  drawExpected();
  drawEnlarged();
  for (const cell of at("lens").querySelectorAll("[data-place]")) {
    cell.classList.toggle("chosen", Number(cell.dataset.place) === chosen.place);
  }
  at("first").disabled = at("previous").disabled = chosen.place === 0;
  at("last").disabled = at("next").disabled = chosen.place === seen.program.length - 1;
  const button = at("tokens").children[chosen.place].firstChild;
  scrollInside(button, at("tokens").parentElement);
  scrollInside(at("lens").tFoot.rows[0].cells[chosen.place + 1], at("lens").parentElement);
  if (focused) button.focus({ preventScroll: true });
  const link = new URLSearchParams({ program: seen.program + (seen.ended ? END : ""), place: chosen.place + 1 });
  history.replaceState(null, "", `#${link}`);
}

const MOVES = {
  first: () => 0,
  previous: () => chosen.place - 1,
  next: () => chosen.place + 1,
  last: () => seen.program.length - 1,
};
const KEYS = { Home: "first", ArrowLeft: "previous", ArrowRight: "next", End: "last" };

// A link has the program and the place, from 1; without a place, it shows the last instruction.
function follow(hash) {
  const place = Number(new URLSearchParams(hash.slice(1)).get("place"));
  setProgram(programOf(hash) ?? "", place >= 1 ? Math.floor(place) - 1 : Infinity);
}

async function load(file) {
  const reply = await fetch(file);
  if (!reply.ok) throw new Error(`${file}: ${reply.status} ${reply.statusText}`);
  return reply;
}

const buffer = async (file) => (await load(file)).arrayBuffer();

// Models stay loaded.
async function useSnapshot(models) {
  const number = Number(at("snapshot").value);
  const { step, file } = site.models[number];
  at("step").textContent = "loading";
  try {
    models[number] ??= new GPT(site.model, await buffer(file));
    if (number !== Number(at("snapshot").value)) return;
    at("step").textContent = step === null ? "trained" : `after ${step.toLocaleString("en")} steps`;
    writing = wrote = null;
    model = models[number];
    look(at("program").value);
  } catch (error) {
    at("step").textContent = "not loaded";
    say(`The snapshot did not load: ${error.message}`);
  }
}

function describe() {
  const { name, parameters, layers, heads, width, max_length: longest } = site.model;
  at("model").textContent = `model ${name}: ${parameters.toLocaleString("en")} parameters, ${layers} blocks of ${heads} heads, `
    + `width ${width}, trained on programs of up to ${longest} instructions`;
  at("instructions").querySelector("tbody").append(...site.instructions.map(({ symbol, name, effect, meaning }) =>
    element("tr", {}, ...[symbol, name, effect, meaning].map((text) => element("td", { textContent: text })))));
  for (const example of at("chips").querySelectorAll("a")) {
    example.title = example.title.replace("LOW", site.values.low).replace("HIGH", site.values.high);
  }
  if (site.documentation) {
    at("documentation").replaceChildren(element("a", { href: site.documentation, textContent: "documentation" }));
  }
  at("question").append(...Object.entries(site.questions).map(([value, { title }]) => element("option", { value, textContent: title })));
  at("layer").append(...Array.from({ length: layers }, (_, i) => element("option", { value: i + 1, textContent: i + 1 })));
  at("layer").value = chosen.layer = layers;
  at("snapshots").hidden = site.models.length === 1;
  at("snapshot").max = at("snapshot").value = site.models.length - 1;
}

async function begin() {
  const models = {};
  say("");
  at("model").textContent = "loading the model …";
  try {
    const weights = buffer("model.bin");
    site = await (await load("site.json")).json();
    model = models[site.models.length - 1] = new GPT(site.model, await weights);
  } catch (error) {
    at("model").textContent = "";
    return say(`The model did not load: ${error.message}`);
  }
  tokenOf = new Map(site.instructions.map(({ symbol }, token) => [symbol, token]));
  machine = makeMachine(site);
  grade = makeGrader(site, machine);
  describe();

  let waiting;
  at("program").addEventListener("input", (event) => {
    clearTimeout(waiting);
    writing = null;
    waiting = setTimeout(() => look(event.target.value), TYPING);
  });
  at("complete").addEventListener("click", complete);
  at("program").addEventListener("keydown", (event) => { if (event.key === "Enter") complete(); });
  at("draw").addEventListener("click", () => drawTask(false));
  at("beat").addEventListener("click", () => drawTask(true));
  at("calls").addEventListener("change", () => look(at("program").value));
  at("layer").addEventListener("change", (event) => { chosen.layer = Number(event.target.value); if (seen) drawAttention(); });
  at("snapshot").addEventListener("input", () => useSnapshot(models));
  for (const [id, move] of Object.entries(MOVES)) at(id).addEventListener("click", () => seen && choose(move()));
  document.addEventListener("keydown", (event) => {
    if (!seen || !(event.key in KEYS) || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    event.preventDefault();
    choose(MOVES[KEYS[event.key]]());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => seen && draw());
  window.addEventListener("resize", () => seen && drawEnlarged());
  window.addEventListener("hashchange", () => follow(location.hash));
  follow(location.hash || OPENING);
}

begin();
