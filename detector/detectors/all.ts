import type { Detector } from './finding.js';
import { stageImbalance } from './stage-imbalance.js';
import { straggler } from './straggler.js';
import { unitJump } from './unit-jump.js';

/** A detector whose state nobody but itself looks into. */
const named = <State>(name: string, detector: Detector<State>) => ({ name, detector: detector as Detector });

/** Every detector, in the order in which their explanations take precedence (DESIGN section 5). */
export const DETECTORS: readonly { readonly name: string; readonly detector: Detector }[] = [
  named('unit-jump', unitJump),
  named('stage-imbalance', stageImbalance),
  named('straggler', straggler),
];
