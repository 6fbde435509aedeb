import { benchBaseline } from './baseline.js';
import { benchDetector } from './detector.js';
import { benchRules } from './rules.js';

await benchDetector();
await benchBaseline();
await benchRules();
