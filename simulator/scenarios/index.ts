import type { Scenario } from '../scenario.js';
import { COMMUNICATION } from './communication.js';
import { HEALTHY_LOAD } from './healthy-load.js';
import { LOOKALIKES } from './lookalikes.js';
import { SERVING_FAULTS } from './serving.js';
import { TRAINING_FAULTS } from './training.js';

/** What can be simulated, by name. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  ...TRAINING_FAULTS,
  ...COMMUNICATION,
  ...SERVING_FAULTS,
  ...LOOKALIKES,
  ...HEALTHY_LOAD,
};
