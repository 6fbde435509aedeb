import { benchDetector } from './detector.js';

await benchDetector();
