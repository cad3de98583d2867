// The model, as cadmus/model/gpt.py defines it, one token after another; tests compare its logits.

const EPSILON = 1e-5, ROTARY_BASE = 10_000;

// Numbers of 16 bits, as few browsers have an array of them.
export function fromHalf(buffer) {
  const table = new Float32Array(65_536);
  for (let bits = 0; bits < table.length; bits++) {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 31 ? (fraction ? NaN : Infinity)
      : exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    table[bits] = bits >> 15 ? -size : size;
  }
  const halves = new Uint16Array(buffer), numbers = new Float32Array(halves.length);
  // Float32Array.from with a function would take most of the time that the page needs to open.
  for (let i = 0; i < halves.length; i++) numbers[i] = table[halves[i]];
  return numbers;
}

// y = W x + b, with W of shape (y.length, x.length).
function product(weights, x, bias = null) {
  const { length } = x;
  const y = new Float32Array(weights.length / length);
  for (let i = 0, at = 0; i < y.length; i++, at += length) {
    let a = 0, b = 0, c = 0, d = 0, k = 0;
    for (; k + 3 < length; k += 4) {
      a += weights[at + k] * x[k];
      b += weights[at + k + 1] * x[k + 1];
      c += weights[at + k + 2] * x[k + 2];
      d += weights[at + k + 3] * x[k + 3];
    }
    for (; k < length; k++) a += weights[at + k] * x[k];
    y[i] = a + b + c + d + (bias ? bias[i] : 0);
  }
  return y;
}

export function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = logits.map((each) => Math.exp(each - largest));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((each) => each / sum);
}

function normalized(x, { weight, bias }) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const variance = x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + EPSILON);
  return x.map((each, i) => (each - mean) * scale * weight[i] + bias[i]);
}

// The error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26).
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

const ACTIVATIONS = {
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  relu2: (x) => Math.max(x, 0) ** 2,
};

export class GPT {
  // Weights in the order in which they are used, see cadmus/explore/site.py.
  constructor({ layers, width, heads, mlp, tied, activation, vocabulary }, buffer) {
    const values = fromHalf(buffer);
    let used = 0;
    const take = (count) => values.subarray(used, (used += count));
    const norm = () => ({ weight: take(width), bias: take(width) });
    const linear = (outputs, inputs) => ({ weight: take(outputs * inputs), bias: take(outputs) });
    this.embedding = take(vocabulary * width);
    this.layers = Array.from({ length: layers }, () => ({
      before: norm(), attention: linear(3 * width, width), dense: linear(width, width),
      after: norm(), up: linear(mlp, width), down: linear(width, mlp),
    }));
    this.norm = norm();
    this.head = tied ? this.embedding : take(vocabulary * width);
    if (used !== values.length) throw new Error(`the weights have ${values.length} numbers, and the model ${used}`);
    Object.assign(this, { width, heads, activation: ACTIVATIONS[activation] });
    this.read = [];
  }

  // What the model computes after each token: {shares, lens}, each by layer, the embedding first in lens. Tokens that
  // the last call had in the same places are not computed again.
  forward(tokens) {
    let kept = 0;
    while (kept < this.read.length && this.read[kept].token === tokens[kept]) kept++;
    this.read.length = kept;
    for (const token of tokens.slice(kept)) this.read.push(this.#next(token));
    return this.read.slice();
  }

  #next(token) {
    const { width, heads, read } = this;
    const size = width / heads, place = read.length;
    let x = this.embedding.slice(token * width, (token + 1) * width);
    const states = [x], shares = [], keys = [], values = [];
    for (const [number, layer] of this.layers.entries()) {
      const mixed = product(layer.attention.weight, normalized(x, layer.before), layer.attention.bias);
      const q = new Float32Array(width), k = new Float32Array(width), v = new Float32Array(width);
      for (let head = 0; head < heads; head++) {
        const from = 3 * head * size, to = head * size, half = size / 2;
        for (let i = 0; i < half; i++) {
          const angle = place / ROTARY_BASE ** (i / half);
          const cosine = Math.cos(angle), sine = Math.sin(angle);
          for (const [part, rotated] of [[from, q], [from + size, k]]) {
            const [a, b] = [mixed[part + i], mixed[part + half + i]];
            rotated[to + i] = a * cosine - b * sine;
            rotated[to + half + i] = b * cosine + a * sine;
          }
        }
        v.set(mixed.subarray(from + 2 * size, from + 3 * size), to);
      }
      keys.push(k);
      values.push(v);
      const out = new Float32Array(width);
      shares.push(Array.from({ length: heads }, (_, head) => {
        const start = head * size;
        const at = (seen, of) => (seen < place ? read[seen][of][number] : of === "keys" ? k : v);
        const scores = Float32Array.from({ length: place + 1 }, (_, seen) => {
          const key = at(seen, "keys");
          let sum = 0;
          for (let i = start; i < start + size; i++) sum += q[i] * key[i];
          return sum / Math.sqrt(size);
        });
        const share = softmax(scores);
        for (let seen = 0; seen <= place; seen++) {
          const value = at(seen, "values");
          for (let i = start; i < start + size; i++) out[i] += share[seen] * value[i];
        }
        return share;
      }));
      const attended = product(layer.dense.weight, out, layer.dense.bias);
      x = x.map((each, i) => each + attended[i]);
      const inner = product(layer.up.weight, normalized(x, layer.after), layer.up.bias).map(this.activation);
      const added = product(layer.down.weight, inner, layer.down.bias);
      x = x.map((each, i) => each + added[i]);
      states.push(x);
    }
    const lens = states.map((state) => softmax(product(this.head, normalized(state, this.norm))));
    return { token, shares, lens, keys, values };
  }
}
