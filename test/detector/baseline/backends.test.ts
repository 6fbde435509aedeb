import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NetworkEvaluator } from '../../../detector/baseline/network.js';
import { seededRandom } from '../../../detector/baseline/random.js';
import { BACKENDS, type Backend, loadTensorFlow } from '../../../detector/baseline/tensorflow.js';
import { modelOf, predict, trainNetwork } from '../../../detector/baseline/train-network.js';

const ROWS = 600;
const random = seededRandom(1);
const inputs = Array.from({ length: ROWS }, () => Float32Array.from({ length: 7 }, () => 4 * random() - 2));
/** Two outputs that a line does not fit; every third row lacks the second. */
const outputs = inputs.map(([a = 0, b = 0], i) =>
  Float32Array.of(Math.max(a, 0.5 * b), i % 3 === 0 ? Number.NaN : 0.1 * a * b),
);
const rows = { inputs, outputs, buckets: inputs.map((_, i) => (i < 20 ? 'rare' : 'frequent')) };

for (const name of BACKENDS) {
  const loaded: Backend | Error = await loadTensorFlow([name]).catch((error: Error) => error);
  const failed = loaded instanceof Error;
  // Where the suite runs unattended, scripts/tfjs-node.mjs has been run: what does not load then is a failure.
  const skip = failed && name === 'tfjs-node' && process.env.CI !== 'true' ? loaded.message : false;
  describe(`TensorFlow.js on ${name}`, { skip }, () => {
    if (failed) {
      it('loads', () => assert.fail(loaded));
      return;
    }
    const { tf } = loaded;

    it('trains a network that fits, the same one again, and scoring computes what it computes', async () => {
      await loadTensorFlow([name]);
      const before = tf.memory().numTensors;
      const network = trainNetwork(tf, rows, 7);
      assert.deepEqual(trainNetwork(tf, rows, 7), network);
      const model = modelOf(tf, network);
      const theirs = predict(tf, model, inputs);
      model.dispose();
      assert.equal(tf.memory().numTensors, before, 'tensors leak');
      assert.equal(theirs.length, 2 * ROWS);
      const evaluator = new NetworkEvaluator(network);
      let error = 0;
      inputs.forEach((row, i) => {
        const own = evaluator.evaluate(row);
        error += Math.abs((own[0] as number) - (outputs[i]?.[0] as number)) / ROWS;
        own.forEach((value, k) => {
          assert.ok(Math.abs(value - (theirs[2 * i + k] as number)) < 1e-4);
        });
      });
      assert.ok(error < 0.1, `mean error ${error}`);
    });
  });
}

describe('choosing a backend', () => {
  it('takes the first that loads, and says why it passed the others over', async () => {
    assert.deepEqual((await loadTensorFlow(['cpu', 'wasm'])).name, 'cpu');
    const { name, passedOver } = await loadTensorFlow();
    assert.equal(BACKENDS.indexOf(name), passedOver.length);
    for (const { why } of passedOver) assert.match(why, /\w/);
    await assert.rejects(loadTensorFlow([]), /no TensorFlow.js backend works/);
  });
});
