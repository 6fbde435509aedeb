import type { Tensor2D } from '@tensorflow/tfjs-core';
import type { Sequential } from '@tensorflow/tfjs-layers';
import { groupBy } from './group-by.js';
import { inputsOf, type Layer, type Network } from './network.js';
import { seededRandom } from './random.js';
import type { TensorFlow } from './tensorflow.js';

const HIDDEN = [16, 16];
/** One shape for every step: memory of the WASM backend breaks under varying ones. */
const BATCH_ROWS = 256;
/** Adam's learning rates, each for so many steps: towards the end medians must settle. */
const SCHEDULE = [
  { rate: 0.01, steps: 250 },
  { rate: 0.003, steps: 150 },
  { rate: 0.001, steps: 100 },
];

/** Rows to learn from: standardised inputs and outputs; an output that a row lacks is NaN. */
export interface TrainingRows {
  readonly inputs: readonly Float32Array[];
  readonly outputs: readonly Float32Array[];
  /** Each is learnt from equally often: rare shapes must not be drowned by frequent ones. */
  readonly buckets: readonly string[];
}

/**
 * Trains a network on the median of its outputs (absolute error, so that slow steps do not bend it). The same rows,
 * seed and backend give the same network; other backends round otherwise.
 */
export function trainNetwork(tf: TensorFlow, rows: TrainingRows, seed: number): Network {
  const width = (rows.outputs[0] as Float32Array).length;
  const model = newModel(tf, (rows.inputs[0] as Float32Array).length, [...HIDDEN, width], seed);
  const picks = balancedPicks(rows.buckets, seededRandom(seed));
  for (const { rate, steps } of SCHEDULE) {
    const optimizer = tf.train.adam(rate);
    for (let step = 0; step < steps; step++) {
      const picked = Array.from({ length: BATCH_ROWS }, () => picks.next().value);
      tf.tidy(() => {
        const { inputs, outputs, known } = batchOf(tf, rows, picked);
        optimizer.minimize(() => {
          const error = tf.sub(model.apply(inputs) as Tensor2D, outputs);
          return tf.mean(tf.abs(tf.mul(error, known)));
        });
      });
    }
    optimizer.dispose();
  }
  const network = networkOf(model);
  model.dispose();
  return network;
}

/** A trained network as a TensorFlow model, which the caller disposes of. */
export function modelOf(tf: TensorFlow, { layers }: Network): Sequential {
  let width = inputsOf(layers);
  const model = newModel(
    tf,
    width,
    layers.map(({ biases }) => biases.length),
    0,
  );
  tf.tidy(() => {
    const values = layers.flatMap(({ weights, biases }) => {
      const kernel = tf.tensor2d([...weights], [width, biases.length]);
      width = biases.length;
      return [kernel, tf.tensor1d([...biases])];
    });
    model.setWeights(values);
  });
  return model;
}

/** Outputs of a model, row after row. */
export const predict = (tf: TensorFlow, model: Sequential, inputs: readonly Float32Array[]): Float32Array =>
  tf.tidy(() => (model.apply(tf.tensor2d(inputs.map((row) => [...row]))) as Tensor2D).dataSync() as Float32Array);

function newModel(tf: TensorFlow, inputs: number, widths: readonly number[], seed: number): Sequential {
  return tf.sequential({
    layers: widths.map((units, depth) =>
      tf.layers.dense({
        units,
        ...(depth === 0 ? { inputShape: [inputs] } : {}),
        ...(depth < widths.length - 1 ? { activation: 'tanh' as const } : {}),
        kernelInitializer: tf.initializers.glorotUniform({ seed: seed + depth }),
      }),
    ),
  });
}

function networkOf(model: Sequential): Network {
  const values = model.getWeights().map((tensor) => Array.from(tensor.dataSync(), shortest));
  const layers: Layer[] = [];
  for (let i = 0; i < values.length; i += 2)
    layers.push({ weights: values[i] as number[], biases: values[i + 1] as number[] });
  return { layers };
}

/** Nine digits say which float32 it is. */
const shortest = (value: number): number => Number(value.toPrecision(9));

function batchOf(tf: TensorFlow, { inputs, outputs }: TrainingRows, picked: readonly number[]) {
  const targets = picked.map((row) => [...(outputs[row] as Float32Array)]);
  return {
    inputs: tf.tensor2d(picked.map((row) => [...(inputs[row] as Float32Array)])),
    outputs: tf.tensor2d(targets.map((row) => row.map((value) => (Number.isNaN(value) ? 0 : value)))),
    known: tf.tensor2d(targets.map((row) => row.map((value) => (Number.isNaN(value) ? 0 : 1)))),
  };
}

/** Rows without end: buckets by turns, each shuffled anew whenever it is through. */
function* balancedPicks(buckets: readonly string[], random: () => number): Generator<number, never> {
  const decks = [...groupBy(buckets.keys(), (row) => buckets[row] as string).values()].map((rows) => {
    return { rows, next: rows.length };
  });
  for (;;)
    for (const deck of decks) {
      if (deck.next === deck.rows.length) {
        shuffle(deck.rows, random);
        deck.next = 0;
      }
      yield deck.rows[deck.next++] as number;
    }
}

function shuffle(items: number[], random: () => number): void {
  for (let i = items.length - 1; i > 0; i--) {
    const k = Math.floor(random() * (i + 1));
    [items[i], items[k]] = [items[k] as number, items[i] as number];
  }
}
