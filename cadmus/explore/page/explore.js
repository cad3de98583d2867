// The state of the page is the last reply and the selection; every change redraws what depends on it.

const at = (id) => document.getElementById(id);
const END = ".";
const SHOWN = 8; // instructions in the list of predictions
const LEAST = 0.0005; // probability that still rounds to 0.1%; less is listed only for the baseline's sake
const OPENING = { program: "62*4+54*4-=.", place: 9 }; // the model completes it from this instruction on
const SIDE = 585; // pixels of the enlarged head, less on a narrow screen
const READABLE = 8; // pixels per instruction below which the attention labels only the chosen one
const TYPING = 40; // ms after the last key press until a program is sent

let machine; // reply of /api/machine
let seen = null; // reply of /api/inspect
let lens = null; // probabilities: {shape: [layers + 1, tokens, 65], data}
let references = null; // reply of /api/references, with the bigrams unpacked; the server takes seconds
let heads = null; // attention of the chosen block: {shape: [heads, tokens, tokens], data}
let chosen = { place: 0, layer: 1, head: 0 };
let asked = new AbortController();
let replacing = new AbortController();

async function ask(path, fields = {}, signal = undefined) {
  const reply = await fetch(`api/${path}?${new URLSearchParams(fields)}`, { signal });
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.error.message);
  return answer;
}

function unpacked({ shape, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  return { shape, data: new Float32Array(bytes.buffer) };
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const percent = (share) => (share < LEAST ? "<0.1%" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`);
const symbolOf = (token) => machine.instructions[token].symbol;
const tokenOf = (symbol) => machine.tokens.get(symbol);
const follows = (place) => seen.program[place + 1] ?? (seen.ended ? END : null);
const probability = (layer, place, token) => {
  const [, tokens, vocabulary] = lens.shape;
  return lens.data[(layer * tokens + place) * vocabulary + token];
};
const attends = (head, from, to) => heads.data[(head * heads.shape[1] + from) * heads.shape[2] + to];

function likeliest(layer, place, count) {
  return machine.instructions
    .map((_, token) => [token, probability(layer, place, token)])
    .sort((a, b) => b[1] - a[1])
    .slice(0, count);
}

function likeliestOne(layer, place) {
  let best = 0;
  for (let token = 1; token < machine.instructions.length; token++) {
    if (probability(layer, place, token) > probability(layer, place, best)) best = token;
  }
  return [best, probability(layer, place, best)];
}

// ---- asking

async function look(text, place = Infinity) {
  asked.abort();
  const mine = (asked = new AbortController());
  history.replaceState(null, "", text ? `#${encodeURIComponent(text)}` : location.pathname);
  document.querySelector("main").ariaBusy = "true";
  try {
    const fields = { program: text };
    const [found, shares] = await Promise.all([
      ask("inspect", { ...fields, calls: at("calls").checked }, mine.signal),
      ask("attention", { ...fields, layer: chosen.layer }, mine.signal),
    ]);
    // Appending selects the last instruction; editing keeps the selection.
    const longer = seen && found.program !== seen.program && found.program.startsWith(seen.program);
    const fresh = !seen || longer;
    seen = found;
    lens = unpacked(found.lens);
    heads = unpacked(shares);
    chosen.place = Math.min(fresh ? place : chosen.place, seen.program.length - 1);
    say("");
    draw();
  } catch (error) {
    if (error.name === "AbortError") return;
    say(error.message);
  }
  document.querySelector("main").ariaBusy = "false";
}

async function lookAtLayer() {
  try {
    heads = unpacked(await ask("attention", { program: seen.program, layer: chosen.layer }));
    drawAttention();
  } catch (error) {
    say(error.message);
  }
}

// The server fits them once; the next replies have what the probe reads.
async function compare() {
  try {
    const fitted = await ask("references");
    references = { ...fitted, bigrams: unpacked(fitted.bigrams) };
    look(at("program").value.trim());
  } catch (error) {
    at("probe").textContent = at("bigrams").textContent = `Neither baseline nor probe: ${error.message}`;
  }
}

// Load a program from the server, unless the user types before it arrives.
async function replaceProgram(button, path, fields) {
  replacing.abort();
  replacing = new AbortController();
  button.disabled = true;
  try {
    const { program } = await ask(path, fields, replacing.signal);
    at("program").value = program;
    seen = null;
    await look(program);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message);
  }
  button.disabled = false;
}

function say(message) {
  at("error").textContent = message;
  at("program").ariaInvalid = message ? "true" : "false";
}

// ---- drawing

function draw() {
  drawVerdict();
  drawReferences();
  drawTrace();
  drawLens();
  drawHeads();
  choose(chosen.place);
}

function drawVerdict() {
  const values = seen.outputs.length ? seen.outputs.map(valueBox) : ["nothing"];
  at("verdict").replaceChildren(
    element("span", { className: String(seen.true), textContent: String(seen.true) }), " · leaves ", ...values,
  );
}

function drawReferences() {
  if (!references) return;
  const { programs, layer, supervised, accuracy, majority } = references;
  at("bigrams").textContent = "Bigram: how often the instruction follows the one before it, counted in "
    + `${programs.toLocaleString("en")} programs of the test split, mixed as in training.`;
  at("probe").textContent = `Probe: the top of the stack, read by a linear probe after block ${layer}`
    + `${supervised ? ", which was trained to predict it" : ""}. Accuracy ${percent(accuracy)}, most frequent value `
    + `${percent(majority)}. For the probe, a call before its definition leaves NAN.`;
}

function valueBox(value) {
  const box = element("span", { className: "value" }, ...pieces(value));
  if (value === null) box.classList.add("nan");
  if (value === 0 || value?.value === 0) box.classList.add("zero");
  return box;
}

function pieces(value) {
  if (value === null) return ["NAN"];
  if (Array.isArray(value)) return ["[", ...value.flatMap((part, i) => [i ? " " : "", ...pieces(part)]), "]"];
  if (typeof value === "object") return [String(value.value), element("sub", { textContent: value.decoration, title: "decoration" })];
  return [String(value)];
}

function drawTokens() {
  const executed = new Set(seen.steps.filter((step) => step.depth === 0).map((step) => step.place));
  const texts = [...seen.program, ...(seen.ended ? [END] : [])];
  at("tokens").replaceChildren(...texts.map((symbol, place) => {
    const last = lens.shape[0] - 1;
    const share = place === 0 ? "" : percent(probability(last, place - 1, tokenOf(symbol)));
    const bar = element("span", { className: "bar" });
    bar.style.transform = `scaleX(${place <= chosen.place ? attends(chosen.head, chosen.place, place) : 0})`;
    const cell = element(
      "button",
      { title: machine.instructions[tokenOf(symbol)].name },
      element("b", { textContent: symbol }), element("small", { textContent: share || "–" }), bar,
    );
    if (place > 0) cell.style.background = `rgba(var(--shade), ${0.55 * probability(last, place - 1, tokenOf(symbol))})`;
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
    const row = element("tr", {}, element("th", { textContent: i + 1 }), symbol, readCell(step), stack);
    row.classList.toggle("inside", step.depth > 0);
    for (const cell of [symbol, stack]) cell.style.paddingLeft = `${1.2 * step.depth}em`;
    row.addEventListener("click", () => choose(step.place));
    return row;
  }));
}

// Steps inside calls have no instruction of the program, and so no hidden state.
function readCell(step) {
  const read = step.depth === 0 && seen.read?.[step.place];
  if (!read) return element("td");
  return element("td", {
    textContent: `${read.label} ${percent(read.probability)}${read.label === read.true ? "" : ` ≠ ${read.true}`}`,
    className: read.label === read.true ? "right" : "wrong",
  });
}

// The last executed step up to a place; instructions of a definition are not executed.
const stepAt = (place) => seen.steps.findLast((step) => step.depth === 0 && step.place <= place);

function drawMachine() {
  const step = stepAt(chosen.place);
  const symbol = seen.program[chosen.place];
  const { name, effect, meaning } = machine.instructions[tokenOf(symbol)];
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
  const last = lens.shape[0] - 1;
  const tokens = likeliest(last, chosen.place, SHOWN).filter(([, share]) => share >= LEAST).map(([token]) => token);
  if (own !== null && !tokens.includes(tokenOf(own))) tokens.push(tokenOf(own));
  const before = tokenOf(seen.program[chosen.place]);
  const bigram = (token) => references.bigrams.data[before * machine.instructions.length + token];
  if (references) {
    const frequent = machine.instructions.map((_, token) => token).filter((token) => bigram(token) >= LEAST && !tokens.includes(token));
    tokens.push(...frequent.sort((a, b) => bigram(b) - bigram(a)).slice(0, Math.max(0, SHOWN - tokens.length)));
  }
  at("after").replaceChildren(
    "After ", element("code", { textContent: seen.program.slice(0, chosen.place + 1) }),
    own === null ? "" : ". The program continues with ", own === null ? "" : element("code", { textContent: own }),
  );
  at("expected").replaceChildren(...tokens.map((token) => {
    const shares = [probability(last, chosen.place, token), ...(references ? [bigram(token)] : [])];
    const bars = shares.map((share) => {
      const bar = element("span", { className: "bar" });
      bar.style.width = `${100 * share}%`;
      return bar;
    });
    const { symbol, name } = machine.instructions[token];
    return element(
      "li", { title: name }, element("span", { textContent: symbol, className: symbol === own ? "own" : "" }),
      element("span", {}, ...bars), ...shares.map((share) => element("span", { textContent: percent(share), className: "share" })),
    );
  }));
}

function drawLens() {
  const [layers, tokens] = lens.shape;
  const rows = [];
  for (let layer = layers - 1; layer >= 0; layer--) {
    const row = element("tr", {}, element("th", { textContent: layer ? `block ${layer}` : "embedding" }));
    for (let place = 0; place < tokens; place++) {
      const [token, share] = likeliestOne(layer, place);
      const own = follows(place);
      const cell = element("td", {
        textContent: symbolOf(token),
        title: `${layer ? `block ${layer}` : "embedding"}, after ${seen.program.slice(0, place + 1)}: ${symbolOf(token)} ${percent(share)}`
          + (own === null ? "" : `; ${own}, which follows, ${percent(probability(layer, place, tokenOf(own)))}`),
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
  const [count, tokens] = heads.shape;
  // A square of heads, as wide as the enlarged one beside it.
  at("heads").style.gridTemplateColumns = `repeat(${Math.ceil(Math.sqrt(count))}, 1fr)`;
  at("heads").replaceChildren(...Array.from({ length: count }, (_, head) => {
    const canvas = element("canvas", { width: tokens, height: tokens });
    const pen = canvas.getContext("2d");
    fill(pen, head, 1, 0);
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

function shade() {
  return getComputedStyle(document.documentElement).getPropertyValue("--shade");
}

function fill(pen, head, size, margin) {
  const tokens = heads.shape[1];
  pen.fillStyle = `rgb(${shade()})`;
  for (let from = 0; from < tokens; from++) {
    for (let to = 0; to <= from; to++) {
      pen.globalAlpha = attends(head, from, to);
      pen.fillRect(margin + to * size, margin + from * size, size, size);
    }
  }
  pen.globalAlpha = 1;
}

function drawEnlarged() {
  const tokens = heads.shape[1];
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

function strongest() {
  const places = Array.from({ length: chosen.place + 1 }, (_, to) => to);
  return shareText(chosen.place, places.reduce((best, to) =>
    attends(chosen.head, chosen.place, to) > attends(chosen.head, chosen.place, best) ? to : best));
}

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
}

const MOVES = {
  first: () => 0,
  previous: () => chosen.place - 1,
  next: () => chosen.place + 1,
  last: () => seen.program.length - 1,
};
const KEYS = { Home: "first", ArrowLeft: "previous", ArrowRight: "next", End: "last" };

async function begin() {
  try {
    machine = await ask("machine");
  } catch (error) {
    return say(`The server does not answer: ${error.message}`);
  }
  machine.tokens = new Map(machine.instructions.map(({ symbol }, token) => [symbol, token]));
  const { name, parameters, layers, heads: headCount, width } = machine.model;
  at("model").textContent = `model ${name}: ${parameters.toLocaleString("en")} parameters, ${layers} blocks of ${headCount} heads, `
    + `width ${width}, trained on programs of up to ${machine.max_length} instructions`;
  at("template").append(...machine.templates.map((template) =>
    element("option", { value: template, textContent: template.replaceAll("_", " ") })));
  at("layer").append(...Array.from({ length: layers }, (_, i) => element("option", { value: i + 1, textContent: i + 1 })));
  chosen.layer = layers;
  at("layer").value = layers;

  let waiting;
  at("program").addEventListener("input", (event) => {
    clearTimeout(waiting);
    replacing.abort();
    waiting = setTimeout(() => look(event.target.value.trim()), TYPING);
  });
  at("complete").addEventListener("click", (event) => replaceProgram(event.target, "complete", { program: at("program").value.trim() }));
  at("sample").addEventListener("click", (event) => replaceProgram(event.target, "sample", { template: at("template").value }));
  at("calls").addEventListener("change", () => look(at("program").value.trim()));
  at("layer").addEventListener("change", (event) => { chosen.layer = Number(event.target.value); if (seen) lookAtLayer(); });
  for (const [id, move] of Object.entries(MOVES)) at(id).addEventListener("click", () => seen && choose(move()));
  document.addEventListener("keydown", (event) => {
    if (!seen || !(event.key in KEYS) || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
    event.preventDefault();
    choose(MOVES[KEYS[event.key]]());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => seen && draw());
  window.addEventListener("resize", () => seen && drawEnlarged());
  window.addEventListener("hashchange", () => show(location.hash));
  await show(location.hash || `#${encodeURIComponent(OPENING.program)}`, location.hash ? Infinity : OPENING.place);
  compare();
}

function show(hash, place) {
  let text;
  try {
    text = decodeURIComponent(hash.slice(1));
  } catch {
    text = hash.slice(1); // a % typed into the address bar
  }
  at("program").value = text;
  return look(text, place);
}

begin();
