import { dlrover } from './dlrover.js';
import { eroica } from './eroica.js';
import { greyhound } from './greyhound.js';
import type { Method } from './method.js';
import { mycroft } from './mycroft.js';
import { resiliencyExt } from './resiliency-ext.js';
import { striaTrace } from './stria-trace.js';

export const METHODS: readonly Method[] = [resiliencyExt, dlrover, greyhound, mycroft, striaTrace, eroica];
