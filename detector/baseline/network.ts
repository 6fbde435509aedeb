/**
 * A dense network with tanh between its layers, evaluated without TensorFlow: scoring runs between a message and an
 * incident, where it must be synchronous and give the same on every machine. Weights and activations are float32, as on
 * the backends that train it. Plain data of the file.
 */
export interface Network {
  readonly layers: readonly Layer[];
}

export interface Layer {
  /** Row-major, inputs x outputs. */
  readonly weights: readonly number[];
  readonly biases: readonly number[];
}

export const inputsOf = ([first]: readonly Layer[]): number =>
  first === undefined ? 0 : first.weights.length / first.biases.length;

/** Network ready to be evaluated. Not reentrant: it owns its scratch memory. */
export class NetworkEvaluator {
  readonly #layers: { weights: Float32Array; biases: Float32Array; out: Float32Array }[];

  constructor({ layers }: Network) {
    this.#layers = layers.map(({ weights, biases }) => ({
      weights: Float32Array.from(weights),
      biases: Float32Array.from(biases),
      out: new Float32Array(biases.length),
    }));
  }

  /** Outputs for one row of inputs; the array is overwritten by the next call. */
  evaluate(row: Float32Array): Float32Array {
    let input = row;
    const last = this.#layers.length - 1;
    this.#layers.forEach(({ weights, biases, out }, depth) => {
      for (let column = 0; column < out.length; column++) {
        let sum = biases[column] as number;
        for (let k = 0; k < input.length; k++)
          sum += (input[k] as number) * (weights[k * out.length + column] as number);
        out[column] = depth < last ? Math.tanh(sum) : sum;
      }
      input = out;
    });
    return input;
  }
}
