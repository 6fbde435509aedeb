import { benchBaseline } from './baseline.js';
import { benchDetector } from './detector.js';

await benchDetector();
await benchBaseline();
