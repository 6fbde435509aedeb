import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type * as core from '@tensorflow/tfjs-core';
import type * as layers from '@tensorflow/tfjs-layers';

/** TensorFlow.js, whichever packages it came from. */
export type TensorFlow = typeof core & Pick<typeof layers, 'sequential' | 'layers' | 'initializers'>;

/** In order of preference. */
export const BACKENDS = ['tfjs-node', 'wasm', 'cpu'] as const;
export type BackendName = (typeof BACKENDS)[number];

export interface Backend {
  readonly name: BackendName;
  readonly tf: TensorFlow;
  /** Why each backend before it was not taken. */
  readonly passedOver: readonly { readonly name: BackendName; readonly why: string }[];
}

const LOADERS: Record<BackendName, () => Promise<TensorFlow>> = {
  'tfjs-node': loadTfjsNode,
  wasm: async () => {
    const wasm = await import('@tensorflow/tfjs-backend-wasm');
    const require = createRequire(import.meta.url);
    wasm.setWasmPaths(`${dirname(require.resolve('@tensorflow/tfjs-backend-wasm'))}/`);
    return portable('wasm');
  },
  cpu: async () => {
    await import('@tensorflow/tfjs-backend-cpu');
    return portable('cpu');
  },
};

/**
 * Loads TensorFlow.js on the first backend that works. Throws where none of `wanted` does, saying why.
 *
 * @param wanted backends to try, in this order
 */
export async function loadTensorFlow(wanted: readonly BackendName[] = BACKENDS): Promise<Backend> {
  const passedOver: { name: BackendName; why: string }[] = [];
  for (const name of wanted)
    try {
      return { name, tf: await LOADERS[name](), passedOver };
    } catch (error) {
      passedOver.push({ name, why: (error as Error).message.split('\n')[0] as string });
    }
  throw new Error(`no TensorFlow.js backend works: ${passedOver.map(({ name, why }) => `${name}: ${why}`).join('; ')}`);
}

async function portable(backend: string): Promise<TensorFlow> {
  const tf = await import('@tensorflow/tfjs-core');
  // Without it, each kernel that two packages bring and the slow CPU backend are warned of.
  tf.enableProdMode();
  // The package also registers the gradients: those of tfjs-core are not in its build for Node.
  const { sequential, layers, initializers } = await import('@tensorflow/tfjs-layers');
  await use(tf, backend);
  return { ...tf, sequential, layers, initializers };
}

/** Built by scripts/tfjs-node.mjs; no dependency of the package, since its own installation breaks without internet. */
async function loadTfjsNode(): Promise<TensorFlow> {
  // The library reports its instruction sets and rounding on stderr otherwise.
  process.env.TF_CPP_MIN_LOG_LEVEL ??= '2';
  process.env.TF_ENABLE_ONEDNN_OPTS ??= '0';
  const require = createRequire(import.meta.url);
  const [root] = require.resolve('@tensorflow/tfjs-core').split('/node_modules/');
  const paths = [import.meta.dirname, `${root}/.cache/tfjs-node`];
  let home: string;
  try {
    home = require.resolve('@tensorflow/tfjs-node', { paths });
  } catch {
    throw new Error('not installed; `node scripts/tfjs-node.mjs` builds it');
  }
  const tf = require(home) as TensorFlow;
  tf.enableProdMode();
  await use(tf, 'tensorflow');
  return tf;
}

async function use(tf: typeof core, backend: string): Promise<void> {
  if (!(await tf.setBackend(backend))) throw new Error(`its ${backend} backend does not start`);
  await tf.ready();
}
